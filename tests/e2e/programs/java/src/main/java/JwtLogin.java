import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** Logs in at each URL that it is given; prints what the first row has, or the driver's error, and after how long. */
public final class JwtLogin {
  private JwtLogin() {}

  public static void main(String[] given) {
    for (String url : given) {
      long began = System.nanoTime();
      String said;
      try (Connection connection = DriverManager.getConnection(url);
          Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT 1")) {
        rows.next();
        said = "row " + rows.getString(1);
      } catch (SQLException fault) {
        Throwable root = fault;
        while (root.getCause() != null) {
          root = root.getCause();
        }
        said = fault.getMessage() + " | " + root.getMessage();
      }
      System.out.println(
          (System.nanoTime() - began) / 1_000_000 + " " + said.replace('\n', ' '));
    }
  }
}
