"""A made-up hotel table to try queries on."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

CITIES = ("Lisbon", "Ljubljana", "Oslo", "Palermo", "Tallinn", "Vienna")
_FIRST = ("Amber", "Blue", "Cedar", "Grand", "Harbour", "Linden", "Little", "Old", "Royal", "Silver")
_SECOND = ("Anchor", "Court", "Crown", "Garden", "House", "Lantern", "Palace", "Rose", "Star", "Terrace")


def hotels(spark: SparkSession, count: int, *, seed: int = 0) -> DataFrame:
    """Return `count` hotels: name, city, price, distance_km, stars, rating.

    Every value is derived from the hotel's number, so the table does not depend on how Spark partitions it. Stars and a
    short way to the centre cost money; guests like stars, but other things, too.
    """

    def uniform(what: str) -> Column:
        return F.pmod(F.xxhash64(F.lit(seed), F.lit(what), "id"), F.lit(2**52)) / 2.0**52

    def bell(what: str) -> Column:
        return sum((uniform(f"{what} {i}") for i in range(4)), start=F.lit(-2.0))

    def choice(what: str, words: tuple[str, ...]) -> Column:
        return F.array(*map(F.lit, words))[(uniform(what) * len(words)).cast("int")]

    name = F.concat_ws(" ", choice("first", _FIRST), choice("second", _SECOND), F.col("id").cast("string"))
    stars = F.least(F.lit(5), F.greatest(F.lit(1), F.round(3.2 + 1.9 * bell("stars")).cast("int")))
    distance_km = F.round(0.1 - 3.0 * F.log(1 - uniform("distance")), 1)
    price = F.round(F.exp(3.6 + 0.33 * F.col("stars") - 0.05 * F.col("distance_km") + 0.55 * bell("price")))
    rating = F.round(F.least(F.lit(10.0), 6.2 + 0.35 * F.col("stars") + 1.6 * bell("rating")), 1)
    return (
        spark.range(count)
        .select("id", name.alias("name"), choice("city", CITIES).alias("city"), stars.alias("stars"))
        .withColumn("distance_km", distance_km)
        .select("name", "city", price.alias("price"), "distance_km", "stars", rating.alias("rating"))
    )
