package sluice;

import org.antlr.v4.runtime.ParserRuleContext;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkSqlParser;

/** Spark's parser, unchanged, that remembers the last text, its parse tree and what was made of it. */
final class KeepingParser extends SparkSqlParser {
    /** Null when the last text was none of the grammar. */
    ParserRuleContext kept;
    /** What became of the last text; null when it was refused, or when there was none. */
    Object root;
    /** The last text; null when there was none. */
    String text;

    void forget() {
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

    public Object withErrorHandling(ParserRuleContext context, scala.Option text, scala.Function0 body) {
        if (kept == null) {
            kept = context;
        }
        return super.withErrorHandling(context, text, body);
    }
}
