package sluice;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.Token;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;

/**
 * A text without what differs between statements of one shape: its literals, comments and spaces.
 *
 * Spark's lexer says what a literal is. A list of literals in brackets is one, however long it is; a name that
 * is not quoted stands in lower case. Any text has a fingerprint, also one that no parser takes.
 */
final class Fingerprint {
    private static final String[] LITERALS = {
        "STRING_LITERAL", "DOUBLEQUOTED_STRING", "BIGINT_LITERAL", "SMALLINT_LITERAL", "TINYINT_LITERAL",
        "INTEGER_VALUE", "EXPONENT_VALUE", "DECIMAL_VALUE", "FLOAT_LITERAL", "DOUBLE_LITERAL",
        "BIGDECIMAL_LITERAL", "BEGIN_DOLLAR_QUOTED_STRING", "DOLLAR_QUOTED_STRING_BODY",
        "END_DOLLAR_QUOTED_STRING",
    };
    private static final Set KINDS = new HashSet(java.util.Arrays.asList(LITERALS));
    private static final String LITERAL = "?";
    private static final String SEVERAL = "?, …";

    private Fingerprint() {}

    static String of(String text) {
        SqlBaseLexer lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(text)));
        lexer.removeErrorListeners();
        List words = new ArrayList();
        for (Token token = lexer.nextToken(); token.getType() != Token.EOF; token = lexer.nextToken()) {
            if ("UNRECOGNIZED".equals(SqlBaseLexer.VOCABULARY.getSymbolicName(token.getType()))) {
                // A string without its end, say: whatever follows may be its text.
                add(words, LITERAL);
                break;
            }
            if (token.getChannel() == Token.DEFAULT_CHANNEL) {
                add(words, word(token));
            }
        }
        StringBuilder joined = new StringBuilder();
        for (int i = 0; i < words.size(); i++) {
            joined.append(i == 0 ? "" : " ").append(words.get(i));
        }
        return joined.toString();
    }

    /** Put a word behind the others: parts of one string are one literal, and so is a list of literals. */
    private static void add(List words, String word) {
        int last = words.size() - 1;
        if (word.equals(LITERAL) && last >= 0) {
            if (isLiteral(words.get(last))) {
                return;
            }
            if (last >= 2 && words.get(last).equals(",") && isLiteral(words.get(last - 1))
                && opens(words.get(last - 2))) {
                words.remove(last);
                words.set(last - 1, SEVERAL);
                return;
            }
        }
        words.add(word);
    }

    private static boolean isLiteral(Object word) {
        return word.equals(LITERAL) || word.equals(SEVERAL);
    }

    private static boolean opens(Object word) {
        return word.equals("(") || word.equals("[");
    }

    private static String word(Token token) {
        String kind = SqlBaseLexer.VOCABULARY.getSymbolicName(token.getType());
        if (KINDS.contains(kind)) {
            return LITERAL;
        }
        String text = token.getText();
        return "BACKQUOTED_IDENTIFIER".equals(kind) ? text : text.toLowerCase(Locale.ROOT);
    }
}
