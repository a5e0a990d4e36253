import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hive.jdbc.HiveStatement;

/** What JDBC tools do with Hive's driver. Arguments: URL, user, password, database to read, database to write. */
public final class HiveJdbc {
  private HiveJdbc() {}

  interface Asked {
    ResultSet run(DatabaseMetaData meta) throws Exception;
  }

  public static void main(String[] given) throws Exception {
    String shop = given[3];
    String scratch = given[4];
    Answers answers = new Answers();
    try (Connection connection = DriverManager.getConnection(given[0], given[1], given[2])) {
      DatabaseMetaData meta = connection.getMetaData();
      answers.step(
          "product",
          () ->
              Arrays.asList(
                  meta.getDatabaseProductName(),
                  meta.getDatabaseProductVersion(),
                  meta.getDatabaseMajorVersion(),
                  meta.getIdentifierQuoteString(),
                  meta.getSearchStringEscape(),
                  meta.getCatalogSeparator(),
                  meta.getSchemaTerm(),
                  meta.supportsBatchUpdates(),
                  connection.getCatalog(),
                  connection.getSchema()));
      metadata(answers, meta, "catalogs", one -> one.getCatalogs());
      metadata(answers, meta, "schemas", one -> one.getSchemas(null, "programs\\_%"));
      metadata(answers, meta, "tables", one -> one.getTables(null, shop, "%", null));
      metadata(answers, meta, "views", one -> one.getTables(null, shop, "%", new String[] {"VIEW"}));
      metadata(answers, meta, "tables by pattern", one -> one.getTables(null, shop, "cust%", new String[] {"TABLE"}));
      metadata(answers, meta, "columns", one -> one.getColumns(null, shop, "customer", "%"));
      metadata(answers, meta, "columns of every type", one -> one.getColumns(null, shop, "every_type", "%"));
      metadata(answers, meta, "some columns", one -> one.getColumns(null, shop, "%", "i%"));
      metadata(answers, meta, "table types", DatabaseMetaData::getTableTypes);
      metadata(answers, meta, "type info", DatabaseMetaData::getTypeInfo);
      metadata(answers, meta, "functions", one -> one.getFunctions(null, null, "conca%"));
      metadata(answers, meta, "primary keys", one -> one.getPrimaryKeys(null, shop, "customer"));
      metadata(answers, meta, "imported keys", one -> one.getImportedKeys(null, shop, "customer"));
      metadata(answers, meta, "indexes", one -> one.getIndexInfo(null, shop, "customer", false, false));
      metadata(answers, meta, "procedures", one -> one.getProcedures(null, shop, "%"));

      answers.step("customers", () -> query(connection, "SELECT * FROM " + shop + ".customer ORDER BY id"));
      answers.step("every type", () -> query(connection, "SELECT * FROM " + shop + ".every_type ORDER BY number"));
      answers.step("a command", () -> query(connection, "SHOW TABLES IN " + shop));
      answers.step("described", () -> query(connection, "DESCRIBE " + shop + ".customer"));
      answers.step("many rows", () -> many(connection, "SELECT id FROM " + shop + ".numbers ORDER BY id"));
      answers.step(
          "the first rows",
          () -> {
            try (Statement statement = connection.createStatement()) {
              statement.setMaxRows(3);
              statement.setQueryTimeout(600);
              return Answers.all(statement.executeQuery("SELECT id FROM " + shop + ".numbers ORDER BY id"));
            }
          });
      answers.step(
          "prepared",
          () -> {
            String text = "SELECT id, ? AS said FROM " + shop + ".customer WHERE id > ? AND joined >= ? ORDER BY id";
            try (PreparedStatement statement = connection.prepareStatement(text)) {
              statement.setString(1, "it's -- a \"text\" \\ ?");
              statement.setInt(2, 2);
              statement.setDate(3, Date.valueOf("2021-01-01"));
              return Answers.all(statement.executeQuery());
            }
          });
      answers.step(
          "prepared with null",
          () -> {
            try (PreparedStatement statement = connection.prepareStatement("SELECT ? AS nothing")) {
              statement.setNull(1, Types.VARCHAR);
              return Answers.all(statement.executeQuery());
            }
          });
      answers.step("made", () -> update(connection, "CREATE TABLE " + scratch + ".made (id INT, word STRING)"));
      answers.step("inserted", () -> update(connection, "INSERT INTO " + scratch + ".made VALUES (1, 'a'), (2, NULL)"));
      answers.step("read", () -> query(connection, "SELECT * FROM " + scratch + ".made ORDER BY id"));
      answers.step(
          "a batch",
          () -> {
            try (Statement statement = connection.createStatement()) {
              statement.addBatch("INSERT INTO " + scratch + ".made VALUES (3, 'c')");
              statement.addBatch("INSERT INTO " + scratch + ".made VALUES (4, 'd')");
              List<Object> counts = new ArrayList<>();
              for (int one : statement.executeBatch()) {
                counts.add(one);
              }
              return counts;
            }
          });
      answers.step("counted", () -> query(connection, "SELECT count(*) FROM " + scratch + ".made"));
      answers.step("dropped", () -> update(connection, "DROP TABLE " + scratch + ".made"));
      answers.step(
          "another database",
          () -> {
            connection.setSchema(shop);
            return Arrays.asList(connection.getSchema(), query(connection, "SELECT count(*) FROM customer"));
          });
      answers.step("valid", () -> connection.isValid(600));
      answers.step("no such table", () -> query(connection, "SELECT * FROM " + shop + ".nothing"));
      answers.step("no such database", () -> query(connection, "USE programs_nothing"));
      answers.step("no SQL", () -> query(connection, "SELEKT 1"));
      answers.step("a value that fails", () -> query(connection, "SELECT 1 / (id - id) FROM " + shop + ".customer"));
      answers.step("a cast that fails", () -> query(connection, "SELECT CAST(name AS INT) FROM " + shop + ".customer"));
      // Spark does not know the call, and this driver waits for its answer then.
      answers.step("the id of a query", () -> given[5].equals("gateway") ? queryId(connection) : "not asked");
      answers.step("overdue", () -> overdue(connection));
      answers.step("after all that", () -> query(connection, "SELECT 1"));
    }
    answers.print();
  }

  private static void metadata(Answers answers, DatabaseMetaData meta, String name, Asked asked) {
    answers.step(
        name,
        () -> {
          try (ResultSet result = asked.run(meta)) {
            return Answers.all(result);
          }
        });
  }

  static Object query(Connection connection, String text) throws Exception {
    try (Statement statement = connection.createStatement()) {
      return statement.execute(text) ? Answers.all(statement.getResultSet()) : "no rows";
    }
  }

  private static Object update(Connection connection, String text) throws Exception {
    try (Statement statement = connection.createStatement()) {
      return statement.executeUpdate(text);
    }
  }

  private static Object many(Connection connection, String text) throws Exception {
    try (Statement statement = connection.createStatement()) {
      statement.setFetchSize(100);
      long rows = 0;
      long sum = 0;
      try (ResultSet result = statement.executeQuery(text)) {
        while (result.next()) {
          rows++;
          sum += result.getLong(1);
        }
      }
      return List.of(rows, sum);
    }
  }

  private static Object queryId(Connection connection) throws Exception {
    try (Statement statement = connection.createStatement()) {
      ((HiveStatement) statement).executeAsync("SELECT 1");
      return ((HiveStatement) statement).getQueryId() == null ? "none" : "one";
    }
  }

  /** Its client cancels it, and Spark does, when its time is over. */
  private static Object overdue(Connection connection) throws Exception {
    try (Statement statement = connection.createStatement()) {
      statement.setQueryTimeout(3);
      try (ResultSet result = statement.executeQuery("SELECT count(*) FROM range(30000000000) WHERE id % 7 = 8")) {
        return result.next() ? "a row" : "no row";
      }
    }
  }
}
