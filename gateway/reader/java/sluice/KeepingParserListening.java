package sluice;

import org.antlr.v4.runtime.Parser;
import org.antlr.v4.runtime.ParserRuleContext;
import org.antlr.v4.runtime.Token;
import org.antlr.v4.runtime.tree.ErrorNode;
import org.antlr.v4.runtime.tree.ParseTree;
import org.antlr.v4.runtime.tree.ParseTreeListener;
import org.antlr.v4.runtime.tree.TerminalNode;
import org.apache.spark.sql.catalyst.parser.SqlBaseParser;

/** For Spark 3.5, where no method is given every tree: ANTLR tells when it has finished one. */
final class KeepingParserListening extends KeepingParser {
    public Object parse(String text, scala.Function1 build) {
        return super.parse(text, new Listening(this, build));
    }

    private static final class Listening extends scala.runtime.AbstractFunction1 implements ParseTreeListener {
        private final KeepingParser keeper;
        private final scala.Function1 build;

        Listening(KeepingParser keeper, scala.Function1 build) {
            this.keeper = keeper;
            this.build = build;
        }

        /** Called once, or twice: what the quicker of ANTLR's ways does not take is parsed anew. */
        public Object apply(Object parser) {
            ((Parser) parser).removeParseListener(this);
            ((Parser) parser).addParseListener(this);
            return build.apply(parser);
        }

        public void exitEveryRule(ParserRuleContext context) {
            boolean root = context instanceof SqlBaseParser.SingleStatementContext
                || context instanceof SqlBaseParser.SingleExpressionContext;
            if (root && endsText(context)) {
                keeper.kept = context;
            }
        }

        /** Whether the whole text is in this tree; a text that is not of the grammar ends before. */
        private static boolean endsText(ParserRuleContext context) {
            ParseTree last = context.getChildCount() == 0 ? null : context.getChild(context.getChildCount() - 1);
            return last instanceof TerminalNode && !(last instanceof ErrorNode)
                && ((TerminalNode) last).getSymbol().getType() == Token.EOF;
        }

        public void enterEveryRule(ParserRuleContext context) {}

        public void visitTerminal(TerminalNode node) {}

        public void visitErrorNode(ErrorNode node) {}
    }
}
