package sluice;

import org.antlr.v4.runtime.ParserRuleContext;
import org.apache.spark.sql.execution.SparkSqlParser;

/** Spark's parser, unchanged, that remembers the parse tree which it hands to its own plan builder. */
class KeepingParser extends SparkSqlParser {
    /** Null when the last text was none of the grammar. */
    ParserRuleContext kept;

    /** The parser of this Spark. How the tree is seen differs, and only one of the ways compiles. */
    static KeepingParser make() {
        boolean shown = ScalaValues.method(SparkSqlParser.class, "withErrorHandling",
            new Class[] {ParserRuleContext.class, scala.Option.class, scala.Function0.class}) != null;
        String name = KeepingParser.class.getName() + (shown ? "Shown" : "Listening");
        try {
            return (KeepingParser) Class.forName(name).getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
        } catch (ReflectiveOperationException broken) {
            throw new IllegalStateException("the parser of this Spark cannot be made", broken);
        }
    }
}
