package sluice;

import java.util.Arrays;
import java.util.List;
import org.antlr.v4.runtime.ParserRuleContext;
import org.apache.spark.sql.catalyst.trees.WithOrigin;

/** A text with what the chain of parsers made of it: its plan and, kept on the way, Spark's parse tree. */
final class ParsedText {
    final String text;
    /** The root: a LogicalPlan, or an Expression for a text that is an expression. */
    final Object root;
    /** Null when an extension's parser made the plan: its tree has other classes. */
    private ParserRuleContext tree;
    private final int[] offsets;
    private WrittenForms forms;
    private PlanWalk walk;

    ParsedText(String text, Object root, ParserRuleContext tree) {
        this.text = text;
        this.root = root;
        this.tree = tree;
        this.offsets = codePointOffsets(text);
    }

    static ParsedText of(String text, boolean expression) {
        return expression ? expression(text) : statement(text);
    }

    static ParsedText statement(String text) {
        return ParserChain.ofThread().statement(text);
    }

    static ParsedText expression(String text) {
        return ParserChain.ofThread().expression(text);
    }

    /** Rules and alternatives of the grammar that a statement is made of, also of one that Spark then refuses. */
    static List contexts(String text) {
        KeepingParser parser = ParserChain.ofThread().spark;
        try {
            parser.parsePlan(text);
        } catch (Exception refused) {
            if (parser.kept == null) {
                throw new IllegalArgumentException("not a statement of the grammar", refused);
            }
        }
        java.util.TreeSet names = new java.util.TreeSet();
        java.util.ArrayDeque open = new java.util.ArrayDeque();
        open.push(parser.kept);
        while (!open.isEmpty()) {
            ParserRuleContext context = (ParserRuleContext) open.pop();
            String name = context.getClass().getSimpleName();
            names.add(name.substring(0, name.length() - "Context".length()));
            for (int i = 0; i < context.getChildCount(); i++) {
                if (context.getChild(i) instanceof ParserRuleContext) {
                    open.push(context.getChild(i));
                }
            }
        }
        return new java.util.ArrayList(names);
    }

    synchronized WrittenForms forms() {
        if (forms == null) {
            forms = new WrittenForms(this, tree);
        }
        return forms;
    }

    /** What is in the plan, found once: whoever reads a text has it proved next, and guards come again. */
    synchronized PlanWalk walk() {
        if (walk == null) {
            walk = new PlanWalk(this);
        }
        return walk;
    }

    /** Gives the parse tree up, which is most of what is kept of a text, once the plan's names are placed. */
    void forgetTree() {
        walk();
        tree = null;
        forms().forgetTree();
    }

    /** The text between two code-point offsets, the second one exclusive. */
    String slice(int start, int end) {
        return offsets == null ? text.substring(start, end) : text.substring(offsets[start], offsets[end]);
    }

    int length() {
        return offsets == null ? text.length() : offsets.length - 1;
    }

    /** The range that Spark notes on a node, or null when it has none. */
    Span originOf(Object node) {
        org.apache.spark.sql.catalyst.trees.Origin origin = ((WithOrigin) node).origin();
        int start = ScalaValues.intOr(origin.startIndex(), -1);
        int stop = ScalaValues.intOr(origin.stopIndex(), -2);
        // A node that Spark made from another text (a function body, say) would carry offsets into that one.
        if (start < 0 || stop < start || stop >= length()) {
            return null;
        }
        if (origin.sqlText().isDefined() && !text.equals(origin.sqlText().get())) {
            return null;
        }
        return new Span(start, stop + 1);
    }

    private static int[] codePointOffsets(String text) {
        int points = text.codePointCount(0, text.length());
        if (points == text.length()) {
            return null;
        }
        int[] offsets = new int[points + 1];
        int at = 0;
        for (int i = 0; i < points; i++) {
            offsets[i] = at;
            at += Character.charCount(text.codePointAt(at));
        }
        offsets[points] = at;
        return offsets;
    }

    /** A half-open range of code points. */
    static final class Span {
        final int start;
        final int end;

        Span(int start, int end) {
            this.start = start;
            this.end = end;
        }

        long key() {
            return ((long) start << 32) | end;
        }

        static Span ofKey(long key) {
            return new Span((int) (key >> 32), (int) key);
        }

        boolean holds(Span other) {
            return start <= other.start && other.end <= end;
        }

        boolean same(Span other) {
            return other != null && start == other.start && end == other.end;
        }

        List json() {
            return Arrays.asList(new Object[] {Integer.valueOf(start), Integer.valueOf(end)});
        }
    }
}
