package sluice;

import org.antlr.v4.runtime.ParserRuleContext;

/** For Spark 4.0 and later, which handles the errors of each tree's plan in a method that is given the tree. */
final class KeepingParserShown extends KeepingParser {
    public Object withErrorHandling(ParserRuleContext context, scala.Option text, scala.Function0 body) {
        if (kept == null) {
            kept = context;
        }
        return super.withErrorHandling(context, text, body);
    }
}
