package sluice;

import org.antlr.v4.runtime.ParserRuleContext;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkSqlParser;

/** Spark's parser, unchanged, that remembers the last text, its parse tree and what was made of it. */
class KeepingParser extends SparkSqlParser {
    /** Null when the last text was none of the grammar. */
    ParserRuleContext kept;
    /** What became of the last text; null when it was refused, or when there was none. */
    Object root;
    /** The last text; null when there was none. */
    String text;

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

    final void forget() {
        kept = null;
        root = null;
        text = null;
    }

    public LogicalPlan parsePlan(String text) {
        forget();
        this.text = text;
        LogicalPlan plan = super.parsePlan(text);
        root = plan;
        return plan;
    }

    public Expression parseExpression(String text) {
        forget();
        this.text = text;
        Expression expression = super.parseExpression(text);
        root = expression;
        return expression;
    }
}
