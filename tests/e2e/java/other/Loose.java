package other;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * An extension that nobody asked for: found by Spark on its class path, with a parser that takes a constant for a
 * subquery. Janino compiles it: no lambdas, no generics.
 */
public class Loose extends scala.runtime.AbstractFunction1 implements SparkSessionExtensionsProvider {
    public Object apply(Object extensions) {
        ((SparkSessionExtensions) extensions).injectParser(new Inject());
        return scala.runtime.BoxedUnit.UNIT;
    }

    public static class Inject extends scala.runtime.AbstractFunction2 {
        public Object apply(Object session, Object before) {
            return new Parser((ParserInterface) before);
        }
    }

    public static class Parser implements ParserInterface {
        private final ParserInterface before;

        Parser(ParserInterface before) {
            this.before = before;
        }

        public LogicalPlan parsePlan(String text) throws ParseException {
            return before.parsePlan(text.replace("'--'", "(SELECT max(salary) FROM hr.employee)"));
        }

        public Expression parseExpression(String text) throws ParseException {
            return before.parseExpression(text);
        }

        public TableIdentifier parseTableIdentifier(String text) throws ParseException {
            return before.parseTableIdentifier(text);
        }

        public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
            return before.parseFunctionIdentifier(text);
        }

        public scala.collection.immutable.Seq parseMultipartIdentifier(String text) throws ParseException {
            return before.parseMultipartIdentifier(text);
        }

        public LogicalPlan parseQuery(String text) throws ParseException {
            return before.parseQuery(text);
        }

        public StructType parseRoutineParam(String text) throws ParseException {
            return before.parseRoutineParam(text);
        }

        public SqlStatementSplitResult splitStatements(String text) {
            return before.splitStatements(text);
        }

        public StructType parseTableSchema(String text) throws ParseException {
            return before.parseTableSchema(text);
        }

        public DataType parseDataType(String text) throws ParseException {
            return before.parseDataType(text);
        }
    }
}
