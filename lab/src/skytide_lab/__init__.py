"""The laboratory of skytide: experiments of the papers in virtual time and on Spark, demonstrations, and the data they run on."""

__version__ = "0.1.0"
