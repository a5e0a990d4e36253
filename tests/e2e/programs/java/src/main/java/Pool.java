import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import com.zaxxer.hikari.HikariPoolMXBean;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** What HikariCP does with Hive's driver. Arguments: URL, user, password, database to read. */
public final class Pool {
  private static final int SIZE = 4;

  private Pool() {}

  static HikariDataSource of(String[] given) {
    HikariConfig config = new HikariConfig();
    config.setDriverClassName("org.apache.hive.jdbc.HiveDriver");
    config.setJdbcUrl(given[0]);
    config.setUsername(given[1]);
    config.setPassword(given[2]);
    config.setMaximumPoolSize(SIZE);
    config.setMinimumIdle(SIZE);
    config.setConnectionTimeout(600_000);
    config.setValidationTimeout(300_000);
    config.setInitializationFailTimeout(600_000);
    return new HikariDataSource(config);
  }

  public static void main(String[] given) throws Exception {
    String customer = given[3] + ".customer";
    Answers answers = new Answers();
    try (HikariDataSource pool = of(given)) {
      HikariPoolMXBean state = pool.getHikariPoolMXBean();
      answers.step("one", () -> ask(pool, "SELECT count(*) FROM " + customer));
      answers.step(
          "twelve at once",
          () -> {
            ExecutorService threads = Executors.newFixedThreadPool(12);
            List<Future<Object>> asked = new ArrayList<>();
            for (int i = 0; i < 12; i++) {
              String text = "SELECT id, name FROM " + customer + " WHERE id >= " + i + " ORDER BY id";
              asked.add(threads.submit(() -> ask(pool, text)));
            }
            List<Object> found = new ArrayList<>();
            for (Future<Object> one : asked) {
              found.add(one.get());
            }
            threads.shutdown();
            return found;
          });
      answers.step("connections", () -> List.of(state.getTotalConnections(), state.getActiveConnections()));
      // An SQLSTATE that begins with 08 would have the pool throw the connection away.
      for (String wrong :
          List.of("SELEKT 1", "SELECT * FROM " + given[3] + ".nothing", "SELECT 1 / (id - id) FROM " + customer)) {
        answers.step(wrong, () -> ask(pool, wrong));
      }
      answers.step("connections after errors", () -> List.of(state.getTotalConnections(), state.getActiveConnections()));
      answers.step(
          "a session of its own",
          () -> {
            try (Connection first = pool.getConnection();
                Connection second = pool.getConnection()) {
              HiveJdbc.query(first, "USE " + given[3]);
              return List.of(first.isValid(300), current(first), current(second));
            }
          });
      answers.step(
          "evicted and made anew",
          () -> {
            state.softEvictConnections();
            return ask(pool, "SELECT 1");
          });
    }
    answers.print();
  }

  private static Object current(Connection connection) throws Exception {
    return HiveJdbc.query(connection, "SELECT current_database()");
  }

  private static Object ask(HikariDataSource pool, String text) throws Exception {
    try (Connection connection = pool.getConnection();
        Statement statement = connection.createStatement();
        ResultSet result = statement.executeQuery(text)) {
      return Answers.all(result);
    }
  }
}
