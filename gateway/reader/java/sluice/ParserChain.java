package sluice;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * The parsers that a Spark with these extensions puts before its own, chained as it chains them.
 *
 * A text has one reading when Spark's own parser was handed this very text and its plan came out of the chain
 * as it was, or when both plans are the same. It may also be a statement of an extension, which Spark's grammar
 * does not have: its plan is of a class that came with the extension, and it is what Spark will run. Anything
 * else is refused, and so are texts within a statement that Spark keeps and parses again by themselves.
 */
final class ParserChain {
    /** A text that is not read in one way. */
    static final class TwoReadings extends RuntimeException {
        TwoReadings(String message) {
            super(message);
        }
    }

    /** A parser of an extension that failed without saying that the text is wrong. */
    static final class Failed extends RuntimeException {
        Failed(Throwable cause) {
            super("a parser of the extensions failed: " + ParserChain.line(cause), cause);
        }
    }

    private static final ThreadLocal CHAINS = new ThreadLocal();
    /** No statement of any grammar. */
    private static final String PROBE = "SLUICE WHICH PARSER IS THIS";

    /** Spark's own parser, the innermost. */
    final KeepingParser spark = KeepingParser.make();
    private final ParserInterface outermost;

    private ParserChain() {
        outermost = Extensions.before(spark);
    }

    /** What a text goes through, the innermost first: class and line, as the stack of an error has them. */
    static List frames() {
        List frames = new ArrayList();
        try {
            ofThread().outermost.parsePlan(PROBE);
        } catch (Exception refused) {
            StackTraceElement[] stack = refused.getStackTrace();
            for (int i = 0; i < stack.length; i++) {
                String name = stack[i].getClassName();
                if (name.equals(ParserChain.class.getName())) {
                    break;
                }
                if (!name.startsWith(KeepingParser.class.getName())) {
                    List frame = new ArrayList();
                    frame.add(name);
                    frame.add(Integer.valueOf(Math.max(stack[i].getLineNumber(), 0)));
                    frames.add(frame);
                }
            }
        }
        return frames;
    }

    /** This thread's chain; making one compiles regular expressions. */
    static ParserChain ofThread() {
        ParserChain chain = (ParserChain) CHAINS.get();
        if (chain == null) {
            chain = new ParserChain();
            CHAINS.set(chain);
        }
        chain.spark.forget();
        return chain;
    }

    ParsedText statement(String text) {
        Object plan = null;
        try {
            plan = outermost.parsePlan(text);
        } catch (Exception refused) {
            if (!text.equals(spark.text) || spark.root == null || !Extensions.asksForCatalogs(refused)) {
                raise(refused);
            }
            plan = spark.root;
        }
        if (!Extensions.any()) {
            return new ParsedText(text, plan, spark.kept);
        }
        if (plan != spark.root || !text.equals(spark.text)) {
            if (Extensions.brought(plan)) {
                return statementOfExtension(text, plan);
            }
            plan = same(text, plan);
        }
        ParsedText parsed = new ParsedText(text, plan, spark.kept);
        requireOneReadingOf(TextCopies.of(plan));
        return parsed;
    }

    /** What the chain makes of a text, whatever Spark's own parser does; for tests that compare the two. */
    String unchecked(String text) {
        Object plan = null;
        try {
            plan = outermost.parsePlan(text);
        } catch (Exception refused) {
            raise(refused);
        }
        return CanonicalDump.of(plan);
    }

    ParsedText expression(String text) {
        Object expression = null;
        try {
            expression = outermost.parseExpression(text);
        } catch (Exception refused) {
            raise(refused);
        }
        if (expression != spark.root || !text.equals(spark.text)) {
            throw new TwoReadings("a parser of the extensions reads the expression otherwise than Spark's own");
        }
        return new ParsedText(text, expression, spark.kept);
    }

    private static ParsedText statementOfExtension(String text, Object plan) {
        ParsedText parsed = new ParsedText(text, plan, null);
        if (!parsed.walk().markers.isEmpty()) {
            throw new TwoReadings("a statement of an extension takes no parameters");
        }
        return parsed;
    }

    /** The plan of Spark's own parser, when it is the one that the chain made. */
    private Object same(String text, Object plan) {
        LogicalPlan own;
        try {
            own = spark.parsePlan(text);
        } catch (Exception refused) {
            throw new TwoReadings("the parsers of the extensions read it as " + ScalaValues.name(plan)
                + ", and Spark's own does not take it: " + line(refused));
        }
        boolean equal;
        try {
            equal = CanonicalDump.of(own).equals(CanonicalDump.of(plan))
                && TextCopies.of(own).equals(TextCopies.of(plan));
        } catch (CanonicalDump.Incomparable incomparable) {
            throw new TwoReadings(incomparable.getMessage());
        }
        if (!equal) {
            throw new TwoReadings("the parsers of the extensions read it as " + ScalaValues.name(plan)
                + ", and Spark's own as another " + ScalaValues.name(own));
        }
        return own;
    }

    /** What Spark keeps as text it will parse again, without what stands around it here. */
    private static void requireOneReadingOf(List copies) {
        for (int i = 0; i < copies.size(); i++) {
            try {
                ofThread().statement((String) copies.get(i));
            } catch (TwoReadings differ) {
                throw new TwoReadings("of a text within it, " + differ.getMessage());
            }
        }
    }

    /** Throws what a parser threw, or that it failed when that is no error about the text. */
    private static void raise(Exception refused) {
        boolean about = refused instanceof SparkThrowable || refused instanceof TwoReadings;
        if (Extensions.any() && !about) {
            throw new Failed(refused);
        }
        org.apache.spark.unsafe.Platform.throwException(refused);
    }

    /** The class and the first line of what was thrown. */
    static String line(Throwable thrown) {
        Throwable cause = thrown;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String message = String.valueOf(cause.getMessage()).trim().split("\n")[0];
        return cause instanceof SparkThrowable ? message : cause.getClass().getSimpleName() + ": " + message;
    }
}
