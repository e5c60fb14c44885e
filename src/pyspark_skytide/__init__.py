"""What Spark's process that looks for sources imports, by the beginning of the name: it ends without a word when Spark ends first."""

from skytide.spark.sources.quiet_end import end_quietly

end_quietly()
