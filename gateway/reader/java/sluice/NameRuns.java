package sluice;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.Token;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;

/** Words of a text with dots between them, as Spark's lexer takes it apart. */
final class NameRuns {
    private static final Pattern WORD = Pattern.compile("[\\p{L}\\p{N}_]+");

    static final class Run {
        final ParsedText.Span span;
        /** Unquoted. */
        final List parts = new ArrayList();

        Run(ParsedText.Span span) {
            this.span = span;
        }
    }

    private NameRuns() {}

    static List of(String text) {
        SqlBaseLexer lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(text)));
        lexer.removeErrorListeners();
        List words = new ArrayList();
        List runs = new ArrayList();
        List tokens = lexer.getAllTokens();
        boolean dotted = false;
        for (int i = 0; i < tokens.size(); i++) {
            Token token = (Token) tokens.get(i);
            if (token.getChannel() != Token.DEFAULT_CHANNEL) {
                continue;
            }
            if (isWord(token)) {
                if (!dotted) {
                    close(words, runs);
                }
                words.add(token);
                dotted = false;
            } else if (token.getText().equals(".") && !words.isEmpty() && !dotted) {
                dotted = true;
            } else {
                close(words, runs);
                dotted = false;
            }
        }
        close(words, runs);
        return runs;
    }

    private static boolean isWord(Token token) {
        return token.getType() == SqlBaseLexer.BACKQUOTED_IDENTIFIER || WORD.matcher(token.getText()).matches();
    }

    private static void close(List words, List runs) {
        if (words.isEmpty()) {
            return;
        }
        int start = ((Token) words.get(0)).getStartIndex();
        Run run = new Run(new ParsedText.Span(start, ((Token) words.get(words.size() - 1)).getStopIndex() + 1));
        for (int i = 0; i < words.size(); i++) {
            Token word = (Token) words.get(i);
            String written = word.getText();
            run.parts.add(word.getType() == SqlBaseLexer.BACKQUOTED_IDENTIFIER
                ? written.substring(1, written.length() - 1).replace("``", "`") : written);
        }
        runs.add(run);
        words.clear();
    }
}
