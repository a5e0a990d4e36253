import static org.apache.spark.sql.functions.avg;
import static org.apache.spark.sql.functions.callUDF;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.explode;
import static org.apache.spark.sql.functions.expr;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.row_number;
import static org.apache.spark.sql.functions.sum;
import static org.apache.spark.sql.functions.upper;
import static org.apache.spark.sql.functions.when;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalog.Column;
import org.apache.spark.sql.catalog.Database;
import org.apache.spark.sql.catalog.Table;
import org.apache.spark.sql.expressions.Window;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** What a program does with Spark's own client for the JVM. Arguments: address, database to read, database to write. */
public final class SparkConnect {
  private SparkConnect() {}

  interface Asked {
    Dataset<Row> run() throws Exception;
  }

  private static final Answers ANSWERS = new Answers();
  private static SparkSession spark;

  public static void main(String[] given) throws Exception {
    String shop = given[1];
    String scratch = given[2];
    String made = scratch + ".made";
    spark = SparkSession.builder().remote(given[0]).create();
    Dataset<Row> customer = spark.table(shop + ".customer");
    Dataset<Row> region = spark.table(shop + ".region");
    Dataset<Row> numbers = spark.table(shop + ".numbers");

    rows("a value", () -> spark.sql("SELECT 1 AS one"));
    rows("customers by SQL", () -> spark.sql("SELECT * FROM " + shop + ".customer ORDER BY id"));
    rows("customers", () -> customer.orderBy("id"));
    rows("every type", () -> spark.table(shop + ".every_type").orderBy("number"));
    rows("a view", () -> spark.table(shop + ".emea").orderBy("id"));
    rows("by name", () -> spark.sql("SELECT id FROM " + shop + ".customer WHERE id > :least", Map.of("least", 3)));
    rows("by place", () -> spark.sql("SELECT id, ? AS said FROM " + shop + ".customer WHERE id < ?", new Object[] {"it's", 3}));
    step("the schema", () -> customer.schema().treeString());
    step("the schema as JSON", () -> spark.table(shop + ".every_type").schema().json());
    step("types", () -> Arrays.toString(customer.dtypes()));
    step("columns", () -> Arrays.asList(customer.columns()));
    rows("filtered", () -> customer.filter(col("spent").gt(0)).select("id", "email").orderBy("id"));
    rows("filtered by text", () -> customer.where("region = 'EMEA' AND id > 1").orderBy(col("id").desc()));
    rows("computed", () -> customer.select(col("id"), upper(col("email")).as("up"), col("spent").multiply(2)).orderBy("id"));
    rows("expressions", () -> customer.selectExpr("id", "concat(name, '!') AS n").orderBy("id"));
    rows("cases", () -> customer.select(col("id"), when(col("spent").isNull(), "none").otherwise("some").as("k")).orderBy("id"));
    rows("cast", () -> customer.select(col("id"), col("spent").cast("string"), col("joined").cast("timestamp")).orderBy("id"));
    rows("a column more", () -> customer.withColumn("host", expr("split(email, '@')[1]")).orderBy("id"));
    rows("renamed", () -> customer.withColumnRenamed("email", "mail").drop("name").orderBy("id"));
    rows("grouped", () -> customer.groupBy("region").agg(count(lit(1)).as("n"), avg("id"), sum("spent")).orderBy("region"));
    rows("rolled up", () -> customer.rollup("region").count().orderBy(col("region").asc_nulls_last()));
    rows("cubed", () -> customer.cube("region").count().orderBy(col("region").asc_nulls_last()));
    rows("pivoted", () -> customer.groupBy("id").pivot("region", List.of("EMEA", "AMER")).count().orderBy("id"));
    rows("pivoted by itself", () -> customer.groupBy("id").pivot("region").count().orderBy("id"));
    rows("joined", () -> customer.join(region, col("region").equalTo(col("code"))).select("id", "title").orderBy("id"));
    rows("joined to the left", () -> customer.join(region, col("region").equalTo(col("code")), "left").select("id", "title").orderBy("id"));
    rows("joined to none", () -> customer.join(region, col("region").equalTo(col("code")), "left_anti").select("id").orderBy("id"));
    rows("crossed", () -> region.crossJoin(region.select(col("code").as("other"))).orderBy("code", "other"));
    rows("united", () -> customer.select("id").union(customer.select("id")).distinct().orderBy("id"));
    rows("less", () -> customer.select("region").except(region.select("code")));
    rows("in common", () -> customer.select("region").intersect(region.select("code")).orderBy("region"));
    rows("windowed", () -> customer.select(col("id"), row_number().over(Window.partitionBy("region").orderBy("id")).as("n")).orderBy("id"));
    rows("unnested", () -> spark.table(shop + ".every_type").select(col("number"), explode(col("list"))).orderBy("number"));
    rows("filled", () -> customer.na().fill("?", new String[] {"email"}).orderBy("id"));
    rows("dropped nulls", () -> customer.na().drop(new String[] {"spent"}).orderBy("id"));
    rows("replaced", () -> customer.na().replace("region", Map.of("EMEA", "E")).orderBy("id"));
    rows("described", () -> customer.describe("id", "spent"));
    rows("summed up", () -> customer.summary("count", "min", "max"));
    rows("crosstab", () -> customer.stat().crosstab("region", "id").orderBy("region_id"));
    step("quantiles", () -> Arrays.toString(numbers.stat().approxQuantile("id", new double[] {0.5}, 0.0)));
    rows("unpivoted", () -> customer.unpivot(new org.apache.spark.sql.Column[] {col("id")}, new org.apache.spark.sql.Column[] {col("name"), col("region")}, "k", "v").orderBy("id", "k"));
    step("count", numbers::count);
    step("empty", () -> customer.filter("id < 0").isEmpty());
    step("first", () -> customer.orderBy("id").first().toString());
    step("taken", () -> customer.orderBy("id").takeAsList(2).toString());
    step("tail", () -> Arrays.toString((Object[]) customer.orderBy("id").tail(2)));
    step("many rows", () -> iterated(numbers.orderBy("id").toLocalIterator()));
    step("strings", () -> customer.select("name").as(Encoders.STRING()).collectAsList().stream().sorted().toList());
    step("as JSON", () -> customer.orderBy("id").toJSON().collectAsList());
    rows("a range", () -> spark.range(0, 10, 3).toDF("id"));
    rows(
        "local rows",
        () ->
            spark.createDataFrame(
                List.of(RowFactory.create(1, "x"), RowFactory.create(2, null)),
                new StructType().add("a", DataTypes.IntegerType).add("b", DataTypes.StringType)));
    step("a temporary view", () -> {
      customer.createOrReplaceTempView("mine");
      return told(spark.sql("SELECT count(*) AS n, max(email) FROM mine"));
    });
    step("it is gone", () -> List.of(spark.catalog().dropTempView("mine"), spark.catalog().dropTempView("mine")));
    step("written", () -> {
      customer.select("id", "email").write().mode("overwrite").saveAsTable(made);
      return told(spark.table(made).orderBy("id"));
    });
    step("written again", () -> {
      customer.select("id", "email").write().mode("append").saveAsTable(made);
      return spark.table(made).count();
    });
    step("inserted", () -> {
      customer.select("id", "email").write().insertInto(made);
      return spark.table(made).count();
    });
    step("written where there is one", () -> {
      customer.write().saveAsTable(made);
      return "written";
    });
    step("written anew", () -> {
      customer.select("id").writeTo(scratch + ".anew").using("parquet").create();
      return told(spark.table(scratch + ".anew").orderBy("id"));
    });
    step("cached", () -> {
      Dataset<Row> kept = customer.select("id", "email").cache();
      Object found = told(kept.orderBy("id"));
      kept.unpersist();
      return found;
    });
    step("a checkpoint", () -> told(customer.select("id", "email").localCheckpoint().orderBy("id")));
    step("explained", () -> spark.sql("EXPLAIN SELECT 1 AS one").collectAsList().toString());
    step("the same", () -> customer.sameSemantics(spark.table(shop + ".customer")));
    step("a plan's number", () -> customer.semanticHash() == spark.table(shop + ".customer").semanticHash());
    step("streaming", () -> List.of(customer.isStreaming(), customer.isLocal()));
    step("files", () -> customer.inputFiles().length > 0);
    rows("hinted", () -> customer.hint("broadcast").orderBy("id").limit(1));
    rows("sampled", () -> numbers.sample(1.0).groupBy().count());
    rows("in parts", () -> numbers.repartition(3).groupBy().count());
    step("the current database", () -> spark.catalog().currentDatabase());
    step("databases", () -> spark.catalog().listDatabases().collectAsList().stream().map(Database::name).filter(one -> one.equals(shop) || one.equals(scratch)).sorted().toList());
    step("tables", () -> spark.catalog().listTables(shop).collectAsList().stream().map(Table::toString).sorted().toList());
    step("columns of a table", () -> spark.catalog().listColumns(shop + ".customer").collectAsList().stream().map(Column::toString).toList());
    step("tables in a DataFrame", () -> spark.catalog().listTables(shop).orderBy("name").collectAsList().size());
    step("a table is there", () -> List.of(spark.catalog().tableExists(shop + ".customer"), spark.catalog().tableExists(shop + ".nothing")));
    step("a function is there", () -> List.of(spark.catalog().functionExists("upper"), spark.catalog().functionExists("nothing")));
    step("another database", () -> {
      spark.catalog().setCurrentDatabase(shop);
      long found = spark.table("customer").count();
      spark.catalog().setCurrentDatabase("default");
      return found;
    });
    step("a setting", () -> {
      spark.conf().set("spark.sql.session.timeZone", "Europe/Berlin");
      return List.of(spark.conf().get("spark.sql.session.timeZone"), spark.conf().isModifiable("spark.sql.ansi.enabled"));
    });
    step("no such setting", () -> spark.conf().get("spark.sql.no.such"));
    step("a function of Java", () -> {
      spark.udf().register("twice", (UDF1<Integer, Integer>) one -> 2 * one, DataTypes.IntegerType);
      return told(customer.select(callUDF("twice", col("id"))));
    });
    step("files by path", () -> told(spark.read().parquet("/tmp/nothing-" + shop)));
    rows("no such table", () -> spark.table(shop + ".nothing"));
    rows("no such column", () -> customer.select("nothing"));
    rows("no SQL", () -> spark.sql("SELEKT 1"));
    rows("a value that fails", () -> customer.select(lit(1).divide(col("id").minus(col("id")))));
    rows("a cast that fails", () -> customer.where("id = 2").select(col("name").cast("int")));
    step("dropped", () -> List.of(told(spark.sql("DROP TABLE " + made)), told(spark.sql("DROP TABLE " + scratch + ".anew"))));
    rows("after all that", () -> spark.sql("SELECT 1 AS one"));
    ANSWERS.print();
    spark.close();
    System.exit(0); // threads of its own may go on
  }

  /** Spark's own errors with what programs branch on; the client has the server's stack as a cause. */
  private static void step(String name, Answers.Work work) {
    ANSWERS.step(
        name,
        () -> {
          try {
            return work.run();
          } catch (Exception error) {
            if (!(error instanceof SparkThrowable told)) {
              throw error;
            }
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("class", error.getClass().getName());
            answer.put("message", String.valueOf(error.getMessage()));
            answer.put("condition", String.valueOf(told.getCondition()));
            answer.put("state", String.valueOf(told.getSqlState()));
            return answer;
          }
        });
  }

  private static void rows(String name, Asked asked) {
    step(name, () -> told(asked.run()));
  }

  private static Object told(Dataset<Row> frame) {
    List<Object> rows = new ArrayList<>();
    for (Row row : frame.collectAsList()) {
      List<Object> values = new ArrayList<>();
      for (int i = 0; i < row.length(); i++) {
        values.add(Answers.value(row.get(i)));
      }
      rows.add(values);
    }
    return Map.of("columns", frame.schema().toDDL(), "rows", rows);
  }

  private static Object iterated(Iterator<Row> rows) {
    long count = 0;
    long sum = 0;
    while (rows.hasNext()) {
      count++;
      sum += rows.next().getLong(0);
    }
    return List.of(count, sum);
  }
}
