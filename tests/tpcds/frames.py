"""The queries as DataFrames, written as people write them: every way to name a column is in use."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect import functions as fn
from pyspark.sql.connect.window import Window

Frame = Callable[[SparkSession], DataFrame]


def q03(spark: SparkSession) -> DataFrame:
    dates, sales, items = spark.table("date_dim"), spark.table("store_sales"), spark.table("item")
    return (
        dates.join(sales, dates.d_date_sk == sales.ss_sold_date_sk)
        .join(items, sales.ss_item_sk == items.i_item_sk)
        .where(items.i_manufact_id.between(125, 140) & (dates.d_moy == 11))
        .groupBy(dates.d_year, items.i_brand, items.i_brand_id)
        .agg(fn.sum(sales.ss_ext_sales_price).alias("sum_agg"))
        .select("d_year", fn.col("i_brand_id").alias("brand_id"), fn.col("i_brand").alias("brand"), "sum_agg")
        .orderBy("d_year", fn.desc("sum_agg"), "brand_id")
        .limit(100)
    )


def q07(spark: SparkSession) -> DataFrame:
    men = spark.read.table("tpcds.customer_demographics").filter(
        "cd_gender = 'M' AND cd_education_status IN ('College', 'Secondary')"
    )
    promotions = spark.read.table("spark_catalog.tpcds.promotion").filter(
        (fn.col("p_channel_email") == "N") | (fn.col("p_channel_event") == "N")
    )
    return (
        spark.table("store_sales")
        .join(spark.table("date_dim").where("d_year = 2000"), fn.expr("ss_sold_date_sk = d_date_sk"))
        .join(spark.table("item"), fn.col("ss_item_sk") == fn.col("i_item_sk"))
        .join(men, fn.col("ss_cdemo_sk") == men["cd_demo_sk"])
        .join(promotions, fn.col("ss_promo_sk") == promotions["p_promo_sk"])
        .groupBy("i_item_id")
        .agg(
            fn.avg("ss_quantity").alias("agg1"),
            fn.avg("ss_list_price").alias("agg2"),
            fn.avg("ss_coupon_amt").alias("agg3"),
            fn.avg("ss_sales_price").alias("agg4"),
        )
        .sort("i_item_id")
        .limit(100)
    )


def q15(spark: SparkSession) -> DataFrame:
    zip_code = fn.substring("ca_zip", 1, 1)
    return (
        spark.table("catalog_sales")
        .join(spark.table("customer"), on=fn.col("cs_bill_customer_sk") == fn.col("c_customer_sk"))
        .join(spark.table("customer_address"), on=fn.col("c_current_addr_sk") == fn.col("ca_address_sk"))
        .join(spark.table("date_dim"), on=fn.col("cs_sold_date_sk") == fn.col("d_date_sk"))
        .filter(
            zip_code.isin("8", "3")
            | fn.col("ca_state").isin("CA", "WA", "GA")
            | (fn.col("cs_sales_price") > 500)
        )
        .filter((fn.col("d_qoy") == 2) & (fn.col("d_year") == 2001))
        .groupBy("ca_zip")
        .agg(fn.sum("cs_sales_price").alias("sales"))
        .orderBy("ca_zip")
        .limit(100)
    )


def q19(spark: SparkSession) -> DataFrame:
    dates = spark.table("date_dim").alias("d").where("d.d_moy = 11 AND d.d_year = 1999")
    items = spark.table("item").alias("i").where(fn.col("i.i_manager_id") <= 8)
    return (
        spark.table("store_sales")
        .alias("s")
        .join(dates, fn.col("d.d_date_sk") == fn.col("s.ss_sold_date_sk"))
        .join(items, fn.col("s.ss_item_sk") == fn.col("i.i_item_sk"))
        .join(spark.table("customer").alias("c"), fn.col("s.ss_customer_sk") == fn.col("c.c_customer_sk"))
        .join(
            spark.table("customer_address").alias("a"),
            fn.col("c.c_current_addr_sk") == fn.col("a.ca_address_sk"),
        )
        .join(spark.table("store").alias("st"), fn.col("s.ss_store_sk") == fn.col("st.s_store_sk"))
        .where(fn.substring("a.ca_zip", 1, 5) != fn.substring("st.s_zip", 1, 5))
        .groupBy("i.i_brand", "i.i_brand_id", "i.i_manufact_id", "i.i_manufact")
        .agg(fn.sum("s.ss_ext_sales_price").alias("ext_price"))
        .orderBy(fn.col("ext_price").desc(), "i_brand", "i_brand_id", "i_manufact_id", "i_manufact")
        .selectExpr("i_brand_id AS brand_id", "i_brand AS brand", "i_manufact_id", "i_manufact", "ext_price")
        .limit(100)
    )


def q26(spark: SparkSession) -> DataFrame:
    sales = spark.table("catalog_sales").withColumnRenamed("cs_item_sk", "i_item_sk")
    women = spark.table("customer_demographics").where(fn.col("cd_gender") == fn.lit("F"))
    return (
        sales.join(spark.table("item"), "i_item_sk")
        .join(women, women.cd_demo_sk == sales.cs_bill_cdemo_sk, "inner")
        .join(spark.table("date_dim").where(fn.col("d_year") == 2000), fn.expr("cs_sold_date_sk = d_date_sk"))
        .join(
            spark.table("promotion").where("p_channel_email = 'N' OR p_channel_event = 'N'"),
            fn.expr("cs_promo_sk = p_promo_sk"),
        )
        .groupBy("i_item_id")
        .agg(
            fn.avg("cs_quantity").alias("agg1"),
            fn.avg("cs_list_price").alias("agg2"),
            fn.avg("cs_coupon_amt").alias("agg3"),
            fn.avg("cs_sales_price").alias("agg4"),
        )
        .orderBy("i_item_id")
        .limit(100)
    )


def q34(spark: SparkSession) -> DataFrame:
    days = fn.col("d_dom")
    cars = fn.col("hd_vehicle_count")
    tickets = (
        spark.table("store_sales")
        .join(spark.table("date_dim"), fn.col("ss_sold_date_sk") == fn.col("d_date_sk"))
        .join(spark.table("store"), fn.col("ss_store_sk") == fn.col("s_store_sk"))
        .join(spark.table("household_demographics"), fn.col("ss_hdemo_sk") == fn.col("hd_demo_sk"))
        .where(days.between(1, 3) | days.between(25, 28))
        .where(fn.col("hd_buy_potential").isin([">10000", "Unknown"]) & (cars > 0))
        .where(fn.when(cars > 0, fn.col("hd_dep_count") / cars) > 1.2)
        .where(fn.col("d_year").isin(1999, 2000, 2001))
        .groupBy("ss_ticket_number", "ss_customer_sk")
        .count()
        .withColumnRenamed("count", "cnt")
    )
    return (
        tickets.join(spark.table("customer"), fn.col("ss_customer_sk") == fn.col("c_customer_sk"))
        .filter("cnt BETWEEN 2 AND 20")
        .select(
            "c_last_name", "c_first_name", "c_salutation", "c_preferred_cust_flag", "ss_ticket_number", "cnt"
        )
        .orderBy(
            "c_last_name",
            "c_first_name",
            "c_salutation",
            fn.desc("c_preferred_cust_flag"),
            "ss_ticket_number",
        )
    )


def q42(spark: SparkSession) -> DataFrame:
    return (
        spark.table("store_sales")
        .join(spark.table("date_dim"), fn.col("d_date_sk") == fn.col("ss_sold_date_sk"))
        .join(spark.table("item"), fn.col("ss_item_sk") == fn.col("i_item_sk"))
        .filter((fn.col("i_manager_id") == 1) & fn.col("d_moy").between(11, 12) & (fn.col("d_year") == 2000))
        .groupBy("d_year", "i_category_id", "i_category")
        .agg({"ss_ext_sales_price": "sum"})
        .withColumnRenamed("sum(ss_ext_sales_price)", "total")
        .orderBy(fn.desc("total"), "d_year", "i_category_id", "i_category")
        .limit(100)
    )


def q43(spark: SparkSession) -> DataFrame:
    week = {"sun": "Sunday", "mon": "Monday", "fri": "Friday", "sat": "Saturday"}
    return (
        spark.table("store_sales")
        .join(spark.table("date_dim").where("d_year = 2000"), fn.expr("d_date_sk = ss_sold_date_sk"))
        .join(spark.table("store").where("s_gmt_offset = -5"), fn.expr("s_store_sk = ss_store_sk"))
        .groupBy("s_store_name", "s_store_id")
        .pivot("d_day_name", list(week.values()))
        .agg(fn.sum("ss_sales_price"))
        .withColumnsRenamed({day: f"{short}_sales" for short, day in week.items()})
        .orderBy("s_store_name", "s_store_id", *(f"{short}_sales" for short in week))
        .limit(100)
    )


def q52(spark: SparkSession) -> DataFrame:
    dates, sales, items = (spark.table(name) for name in ("date_dim", "store_sales", "item"))
    return (
        sales.join(fn.broadcast(dates), sales["ss_sold_date_sk"] == dates["d_date_sk"])
        .join(items, sales["ss_item_sk"] == items["i_item_sk"])
        .where((items["i_manager_id"] <= 3) & (dates["d_moy"] == 11) & (dates["d_year"] == 2000))
        .groupBy(dates["d_year"], items["i_brand_id"].alias("brand_id"), items["i_brand"].alias("brand"))
        .agg(fn.sum("ss_ext_sales_price").alias("ext_price"))
        .orderBy("d_year", fn.desc("ext_price"), "brand_id")
        .limit(100)
    )


def q55(spark: SparkSession) -> DataFrame:
    spark.table("item").where("i_manager_id BETWEEN 2 AND 5").createOrReplaceTempView("some_items")
    return (
        spark.table("store_sales")
        .join(
            spark.table("date_dim"), fn.expr("d_date_sk = ss_sold_date_sk AND d_moy = 11 AND d_year = 1999")
        )
        .join(spark.table("some_items"), fn.expr("ss_item_sk = some_items.i_item_sk"))
        .groupBy(fn.col("i_brand_id").alias("brand_id"), fn.col("i_brand").alias("brand"))
        .agg(fn.expr("sum(ss_ext_sales_price) AS ext_price"))
        .orderBy(fn.desc("ext_price"), "brand_id")
        .limit(100)
    )


def q65(spark: SparkSession) -> DataFrame:
    months = spark.table("date_dim").where(fn.col("d_month_seq").between(1195, 1206))
    revenues = (
        spark.table("store_sales")
        .join(months, fn.col("ss_sold_date_sk") == fn.col("d_date_sk"))
        .groupBy("ss_store_sk", "ss_item_sk")
        .agg(fn.sum("ss_sales_price").alias("revenue"))
    )
    averages = revenues.groupBy("ss_store_sk").agg(fn.avg("revenue").alias("ave"))
    return (
        revenues.join(averages, "ss_store_sk")
        .where("revenue <= 0.1 * ave")
        .join(spark.table("store"), fn.col("s_store_sk") == fn.col("ss_store_sk"))
        .join(spark.table("item"), fn.col("i_item_sk") == fn.col("ss_item_sk"))
        .select("s_store_name", "i_item_desc", "revenue", "i_current_price", "i_manufact", "i_brand")
        .orderBy("s_store_name", "i_item_desc", "revenue", "i_current_price", "i_manufact", "i_brand")
        .limit(100)
    )


def q68(spark: SparkSession) -> DataFrame:
    addresses = spark.table("customer_address")
    cities = ["Fairview", "Midway", "Oak Grove", "Five Points", "Centerville"]
    bought = (
        spark.table("store_sales")
        .join(spark.table("date_dim"), fn.col("ss_sold_date_sk") == fn.col("d_date_sk"))
        .join(spark.table("store"), fn.col("ss_store_sk") == fn.col("s_store_sk"))
        .join(spark.table("household_demographics"), fn.col("ss_hdemo_sk") == fn.col("hd_demo_sk"))
        .join(addresses, fn.col("ss_addr_sk") == fn.col("ca_address_sk"))
        .where(fn.col("d_dom").between(1, 2) & fn.col("d_year").isin(1999, 2000, 2001))
        .where((fn.col("hd_dep_count") == 4) | (fn.col("hd_vehicle_count") == 3))
        .where(fn.col("s_city").isin(cities))
        .groupBy("ss_ticket_number", "ss_customer_sk", "ss_addr_sk", fn.col("ca_city").alias("bought_city"))
        .agg(
            fn.sum("ss_ext_sales_price").alias("extended_price"),
            fn.sum("ss_ext_list_price").alias("list_price"),
            fn.sum("ss_ext_tax").alias("extended_tax"),
        )
        .drop("ss_addr_sk")
    )
    return (
        bought.join(spark.table("customer"), fn.col("ss_customer_sk") == fn.col("c_customer_sk"))
        .join(addresses.alias("now"), fn.col("c_current_addr_sk") == fn.col("now.ca_address_sk"))
        .where(fn.col("now.ca_city") != fn.col("bought_city"))
        .select(
            "c_last_name", "c_first_name", "now.ca_city", "bought_city", "ss_ticket_number",
            "extended_price", "extended_tax", "list_price",
        )
        .orderBy("c_last_name", "ss_ticket_number", "c_first_name", "bought_city", "extended_price")
        .limit(100)
    )  # fmt: skip


def q73(spark: SparkSession) -> DataFrame:
    spark.sql(
        "SELECT * FROM store WHERE s_county IN ('Ziebach County', 'Barrow County', 'Luce County')"
    ).createOrReplaceTempView("some_stores")
    tickets = spark.sql(
        """
        SELECT ss_ticket_number, ss_customer_sk, count(*) AS cnt
        FROM store_sales
        JOIN date_dim ON ss_sold_date_sk = d_date_sk
        JOIN some_stores ON ss_store_sk = s_store_sk
        JOIN {households} AS h ON ss_hdemo_sk = h.hd_demo_sk
        WHERE d_dom BETWEEN :first AND :last AND hd_vehicle_count > 0
        GROUP BY ss_ticket_number, ss_customer_sk
        """,
        args={"first": 1, "last": 12},
        households=spark.table("household_demographics").where("hd_buy_potential IN ('>10000', 'Unknown')"),
    )
    return (
        tickets.join(spark.table("customer"), fn.col("ss_customer_sk") == fn.col("c_customer_sk"))
        .where(fn.col("cnt").between(1, 5))
        .select(
            "c_last_name", "c_first_name", "c_salutation", "c_preferred_cust_flag", "ss_ticket_number", "cnt"
        )
        .orderBy(fn.desc("cnt"), "c_last_name", "ss_ticket_number")
    )


def q79(spark: SparkSession) -> DataFrame:
    sums = (
        spark.table("store_sales")
        .join(spark.table("date_dim").where("d_dow = 1"), fn.expr("ss_sold_date_sk = d_date_sk"))
        .join(
            spark.table("store").where(fn.col("s_number_employees").between(200, 295)),
            fn.expr("ss_store_sk = s_store_sk"),
        )
        .join(
            spark.table("household_demographics").where("hd_dep_count = 6 OR hd_vehicle_count > 2"),
            fn.expr("ss_hdemo_sk = hd_demo_sk"),
        )
        .groupBy("ss_ticket_number", "ss_customer_sk", "ss_addr_sk", "s_city")
        .agg(fn.sum("ss_coupon_amt").alias("amt"), fn.sum("ss_net_profit").alias("profit"))
    )
    return (
        sums.join(spark.table("customer"), fn.col("ss_customer_sk") == fn.col("c_customer_sk"))
        .withColumn("city", fn.substring("s_city", 1, 30))
        .select("c_last_name", "c_first_name", "city", "ss_ticket_number", "amt", "profit")
        .orderBy("c_last_name", "c_first_name", "city", "profit", "ss_ticket_number")
        .limit(100)
    )


def q96(spark: SparkSession) -> DataFrame:
    late = spark.table("time_dim").where("t_hour = 20").where("t_minute >= 30")
    return (
        spark.table("store_sales")
        .join(late, fn.col("ss_sold_time_sk") == fn.col("t_time_sk"), "left_semi")
        .join(
            spark.table("household_demographics").where(fn.col("hd_dep_count").between(3, 8)),
            fn.col("ss_hdemo_sk") == fn.col("hd_demo_sk"),
            "left_semi",
        )
        .join(
            spark.table("store").where(fn.col("s_store_name").like("store %")),
            fn.col("ss_store_sk") == fn.col("s_store_sk"),
            "left_semi",
        )
        .agg(fn.count("*").alias("cnt"))
    )


def q98(spark: SparkSession) -> DataFrame:
    year = fn.col("d_date").between(dt.date(1999, 1, 1), dt.date(1999, 12, 31))
    revenues = (
        spark.table("store_sales")
        .join(spark.table("item"), fn.col("ss_item_sk") == fn.col("i_item_sk"))
        .join(spark.table("date_dim"), fn.col("ss_sold_date_sk") == fn.col("d_date_sk"))
        .where(fn.col("i_category").isin("Sports", "Books", "Home") & year)
        .groupBy("i_item_id", "i_item_desc", "i_category", "i_class", "i_current_price")
        .agg(fn.sum("ss_ext_sales_price").alias("itemrevenue"))
    )
    of_its_class = fn.sum("itemrevenue").over(Window.partitionBy("i_class"))
    return revenues.withColumn("revenueratio", fn.col("itemrevenue") * 100 / of_its_class).orderBy(
        "i_category", "i_class", "i_item_id", "i_item_desc", "revenueratio", "i_current_price"
    )


FRAMES: dict[str, Frame] = {
    "q03": q03, "q07": q07, "q15": q15, "q19": q19, "q26": q26, "q34": q34, "q42": q42, "q43": q43,
    "q52": q52, "q55": q55, "q65": q65, "q68": q68, "q73": q73, "q79": q79, "q96": q96, "q98": q98,
}  # fmt: skip
