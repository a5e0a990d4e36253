package sluice;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.antlr.v4.runtime.ParserRuleContext;
import org.antlr.v4.runtime.tree.ParseTree;
import org.antlr.v4.runtime.tree.TerminalNode;
import org.apache.spark.sql.catalyst.parser.SqlBaseParser;

/**
 * What the parse tree tells and the plan does not: where a name is written, how a scan is written, and
 * whether columns are used that nobody names. One pass over the tree, without recursion.
 */
final class WrittenForms {
    static final String BARE = "bare";
    static final String ALIASED = "aliased";
    static final String TABLE_KEYWORD = "table_keyword";
    static final String TABLE_ARGUMENT = "table_argument";

    /** How one scan is written; spans as the model's `Relation` documents them. */
    static final class Form {
        String kind;
        ParsedText.Span whole;
        ParsedText.Span suffix;
        ParsedText.Span sample;
        ParsedText.Span alias;
    }

    /** Where a statement that makes a view, or changes its text, has that text. */
    static final class ViewText {
        ParsedText.Span query;
        /** Where properties can be added: the AS before the query, or the list of them with its brackets. */
        ParsedText.Span place;
        /** Where each property of that list stands. */
        List properties = new ArrayList();

        Map json() {
            Map told = new HashMap();
            told.put("query", query == null ? null : query.json());
            told.put("place", place == null ? null : place.json());
            told.put("properties", properties);
            return told;
        }
    }

    /** A name of an object, and where it stands. */
    private static final class StatementName {
        final ParsedText.Span span;
        final List parts;

        StatementName(ParsedText.Span span, List parts) {
            this.span = span;
            this.parts = parts;
        }
    }

    /** An item of a select list without an alias, and the WINDOW clause beside the list, if there is one. */
    static final class Item {
        final ParsedText.Span span;
        final ParsedText.Span windows;

        Item(ParsedText.Span span, ParsedText.Span windows) {
            this.span = span;
            this.windows = windows;
        }
    }

    private final ParsedText parsed;
    /** Items of select lists whose columns Spark names, in the order of the text. */
    private final List items = new ArrayList();
    /** Set when the statement makes a view or changes its text. */
    private ViewText viewText;
    /** Range of a written name → its contexts, for names of every kind. */
    private Map names = new HashMap();
    /** Range of a scan's name → Form. */
    private final Map forms = new HashMap();
    /** Range of a star → the range of its qualifier and asterisk, without an EXCEPT list. */
    private final Map stars = new HashMap();
    /** Names of objects that stand outside every query of the statement. */
    private final List statementNames = new ArrayList();
    private boolean doubledQuotes;
    /** Range of a call without arguments or clauses, or of a one-part name → its context. */
    private Map calls = new HashMap();
    /** Range of a parameter marker → whether it stands where a value may stand. */
    final Map markers = new java.util.TreeMap();
    /** Range of `IDENTIFIER(…)` → the range of what stands in its brackets. */
    final Map identifierClauses = new HashMap();
    /** Range of one of which a field is taken → the range of the field's name. */
    final Map fieldsTaken = new HashMap();
    /** Range of a call → the range of the function's name. */
    private final Map functionNames = new HashMap();
    private int queries;

    WrittenForms(ParsedText parsed, ParserRuleContext tree) {
        this.parsed = parsed;
        ArrayDeque open = new ArrayDeque();
        if (tree == null) {
            noteWords();
        } else {
            open.push(tree);
        }
        while (!open.isEmpty()) {
            ParserRuleContext context = (ParserRuleContext) open.pop();
            note(context);
            for (int i = context.getChildCount() - 1; i >= 0; i--) {
                ParseTree child = context.getChild(i);
                if (child instanceof ParserRuleContext) {
                    open.push(child);
                }
            }
        }
    }

    /**
     * Without a tree, in a statement of an extension: each run of words with dots between them may be a name,
     * and stands where it stands first. Whether it is the one that was meant, a proof says.
     */
    private void noteWords() {
        List runs = NameRuns.of(parsed.text);
        for (int i = 0; i < runs.size(); i++) {
            NameRuns.Run run = (NameRuns.Run) runs.get(i);
            boolean first = true;
            for (int j = 0; j < statementNames.size(); j++) {
                first &= !((StatementName) statementNames.get(j)).parts.equals(run.parts);
            }
            if (first) {
                statementNames.add(new StatementName(run.span, run.parts));
            }
        }
    }

    /** Gives up what holds parts of the tree; whoever asks for these afterwards fails. */
    void forgetTree() {
        names = null;
        calls = null;
    }

    /** The text of the view that the statement makes or changes, or null. */
    ViewText viewText() {
        return viewText;
    }

    /** Whether a literal follows another one without a blank: before Spark 4.1, `'it''s'` is two of them. */
    boolean doubledQuotes() {
        return doubledQuotes;
    }

    /** The written form of the scan whose name stands at this range, or null. */
    Form formAt(ParsedText.Span name) {
        return (Form) forms.get(Long.valueOf(name.key()));
    }

    /** The range without EXCEPT of the star that stands at this range, or null. */
    ParsedText.Span starAt(ParsedText.Span range) {
        return (ParsedText.Span) stars.get(Long.valueOf(range.key()));
    }

    /** Whether the text of this range, unquoted, is a name with exactly these parts. */
    boolean isName(ParsedText.Span range, List parts) {
        List contexts = (List) names.get(Long.valueOf(range.key()));
        for (int i = 0; contexts != null && i < contexts.size(); i++) {
            if (parts.equals(writtenParts((ParserRuleContext) contexts.get(i)))) {
                return true;
            }
        }
        return false;
    }

    /**
     * Where a statement writes an object name outside its queries: the only place within `range` with these
     * parts that no other node has claimed. Null when there is none, or more than one.
     */
    ParsedText.Span statementName(ParsedText.Span range, List parts, List claimed) {
        ParsedText.Span found = null;
        for (int i = 0; i < statementNames.size(); i++) {
            StatementName name = (StatementName) statementNames.get(i);
            ParsedText.Span span = name.span;
            if ((range != null && !range.holds(span)) || isClaimed(span, claimed)) {
                continue;
            }
            if (parts.equals(name.parts)) {
                if (found != null && !found.same(span)) {
                    return null;
                }
                found = span;
            }
        }
        return found;
    }

    private static boolean isClaimed(ParsedText.Span span, List claimed) {
        for (int i = 0; i < claimed.size(); i++) {
            if (span.same((ParsedText.Span) claimed.get(i))) {
                return true;
            }
        }
        return false;
    }

    /** Whether the statement has more than one query, so that a name may mean different columns in it. */
    boolean nested() {
        return queries > 1;
    }

    /** Whether a call without anything in its brackets, or a name of one part, stands at this range. */
    boolean isCallOrName(ParsedText.Span range) {
        return calls.containsKey(Long.valueOf(range.key()));
    }

    /**
     * The item of a select list that is nothing but the expression at this range, brackets aside, and has no
     * alias: Spark names the item's column. Null when it is none.
     */
    ParsedText.Span itemAt(ParsedText.Span range) {
        ParserRuleContext at = (ParserRuleContext) calls.get(Long.valueOf(range.key()));
        while (at != null) {
            ParserRuleContext parent = (ParserRuleContext) at.getParent();
            if (parent instanceof SqlBaseParser.NamedExpressionContext) {
                boolean item = parent.getChildCount() == 1
                    && (parent.getParent() instanceof SqlBaseParser.NamedExpressionSeqContext
                        || parent.getParent() instanceof SqlBaseParser.SingleExpressionContext);
                return item ? spanOf(parent) : null;
            }
            boolean passes = parent instanceof SqlBaseParser.ParenthesizedExpressionContext
                || (parent != null && parent.getChildCount() == 1);
            at = passes ? parent : null;
        }
        return null;
    }

    List items() {
        return items;
    }

    private void noteItem(ParserRuleContext item) {
        ParserRuleContext list = (ParserRuleContext) item.getParent();
        ParserRuleContext of = list == null ? null : (ParserRuleContext) list.getParent();
        boolean selected = list instanceof SqlBaseParser.NamedExpressionSeqContext
            && (of instanceof SqlBaseParser.SelectClauseContext || of instanceof SqlBaseParser.PivotClauseContext
                || Grammar.isPiped(of));
        boolean key = list instanceof SqlBaseParser.AggregationClauseContext && Grammar.isPiped(of);
        boolean alone = list instanceof SqlBaseParser.SingleExpressionContext;
        if (item.getChildCount() != 1 || spanOf(item) == null || !(selected || key || alone)) {
            return;
        }
        ParsedText.Span windows = null;
        ParserRuleContext query = of == null ? null : (ParserRuleContext) of.getParent();
        for (int i = 0; query != null && i < query.getChildCount(); i++) {
            if (query.getChild(i) instanceof SqlBaseParser.WindowClauseContext) {
                windows = spanOf((ParserRuleContext) query.getChild(i));
            }
        }
        items.add(new Item(spanOf(item), windows));
    }

    private void noteCall(ParserRuleContext context) {
        ParsedText.Span span = spanOf(context);
        if (span != null) {
            calls.put(Long.valueOf(span.key()), context);
        }
    }

    private void noteMarker(ParserRuleContext context, boolean value) {
        ParsedText.Span span = spanOf(context);
        if (span != null) {
            markers.put(Long.valueOf(span.key()), Boolean.valueOf(value));
        }
    }

    private void noteIdentifierClause(ParserRuleContext context, ParserRuleContext argument) {
        ParsedText.Span span = argument == null ? null : spanOf(context);
        if (span != null) {
            identifierClauses.put(Long.valueOf(span.key()), spanOf(argument));
        }
    }

    private void noteIdentifierClauses(ParserRuleContext context) {
        noteIdentifierClause(context, Grammar.identifierLiteral(context));
        noteIdentifierClause(context, Grammar.catalogName(context));
        if (context instanceof SqlBaseParser.IdentifierReferenceContext) {
            noteIdentifierClause(context, ((SqlBaseParser.IdentifierReferenceContext) context).expression());
        } else if (context instanceof SqlBaseParser.FunctionNameContext) {
            noteIdentifierClause(context, ((SqlBaseParser.FunctionNameContext) context).expression());
        } else if (context instanceof SqlBaseParser.FunctionCallContext) {
            SqlBaseParser.FunctionCallContext call = (SqlBaseParser.FunctionCallContext) context;
            SqlBaseParser.FunctionNameContext name = call.functionName();
            // A name in an expression is written as a call: the word, two brackets and what is in them.
            if (name.IDENTIFIER_KW() != null && name.expression() == null && call.getChildCount() == 4) {
                noteIdentifierClause(context, call.functionArgument(0));
                if (context.getParent() instanceof SqlBaseParser.DereferenceContext && spanOf(context) != null) {
                    SqlBaseParser.DereferenceContext taken = (SqlBaseParser.DereferenceContext) context.getParent();
                    fieldsTaken.put(Long.valueOf(spanOf(context).key()), spanOf(taken.fieldName));
                }
            }
        }
    }

    /** Where the name of the function is written that is called at this range, or null. */
    ParsedText.Span functionName(ParsedText.Span call, List parts) {
        ParsedText.Span name = (ParsedText.Span) functionNames.get(Long.valueOf(call.key()));
        return name != null && isName(name, parts) ? name : null;
    }

    private void noteFunctionName(SqlBaseParser.FunctionNameContext context) {
        ParsedText.Span name = context.qualifiedName() == null ? null : spanOf(context.qualifiedName());
        ParserRuleContext call = (ParserRuleContext) context.getParent();
        for (int i = 0; i < 2 && name != null && call != null; i++) {
            ParsedText.Span span = spanOf(call);
            if (span != null && !functionNames.containsKey(Long.valueOf(span.key()))) {
                functionNames.put(Long.valueOf(span.key()), name);
            }
            call = (ParserRuleContext) call.getParent();
        }
    }

    private void note(ParserRuleContext context) {
        noteIdentifierClauses(context);
        if (context instanceof SqlBaseParser.FunctionNameContext) {
            noteFunctionName((SqlBaseParser.FunctionNameContext) context);
        }
        if (context instanceof SqlBaseParser.NamedExpressionContext) {
            noteItem(context);
        }
        if (context instanceof SqlBaseParser.FunctionCallContext) {
            // Three children: a name and two brackets.
            if (context.getChildCount() == 3) {
                noteCall(context);
            }
        } else if (context instanceof SqlBaseParser.ColumnReferenceContext
            || context instanceof SqlBaseParser.CurrentLikeContext) {
            noteCall(context);
        } else if (context instanceof SqlBaseParser.NamedParameterLiteralContext
            || context instanceof SqlBaseParser.PosParameterLiteralContext) {
            noteMarker(context, true);
        } else if (Grammar.isParameterMarker(context)) {
            noteMarker(context, false);
        } else if (Grammar.isPipe(context)) {
            queries += 2;
        } else if (context instanceof SqlBaseParser.QueryPrimaryContext) {
            queries++;
        }
        noteTableOf(Grammar.commentedColumn(context));
        if (context instanceof SqlBaseParser.StringLiteralContext) {
            for (int i = 1; i < context.getChildCount(); i++) {
                ParsedText.Span before = spanOf((ParserRuleContext) context.getChild(i - 1));
                doubledQuotes |= before.end == spanOf((ParserRuleContext) context.getChild(i)).start;
            }
        }
        if (context instanceof SqlBaseParser.CreateViewContext) {
            noteView(context, ((SqlBaseParser.CreateViewContext) context).query());
        } else if (Grammar.metrics(context) != null) {
            noteView(context, Grammar.metrics(context));
        } else if (context instanceof SqlBaseParser.AlterViewQueryContext) {
            viewText = new ViewText();
            viewText.query = spanOf(((SqlBaseParser.AlterViewQueryContext) context).query());
        }
        if (context instanceof SqlBaseParser.MultipartIdentifierContext
            || context instanceof SqlBaseParser.TableIdentifierContext
            || context instanceof SqlBaseParser.QualifiedNameContext
            || context instanceof SqlBaseParser.DereferenceContext
            || context instanceof SqlBaseParser.ColumnReferenceContext) {
            noteName(context);
        } else if (context instanceof SqlBaseParser.TableNameContext) {
            noteTableName((SqlBaseParser.TableNameContext) context);
        } else if (context instanceof SqlBaseParser.MergeIntoTableContext) {
            noteMergeSource((SqlBaseParser.MergeIntoTableContext) context);
        } else if (context instanceof SqlBaseParser.TableContext) {
            Form form = new Form();
            form.kind = TABLE_KEYWORD;
            form.whole = spanOf(context);
            put(((SqlBaseParser.TableContext) context).identifierReference(), form);
        } else if (context instanceof SqlBaseParser.FunctionTableSubqueryArgumentContext) {
            noteTableArgument((SqlBaseParser.FunctionTableSubqueryArgumentContext) context);
        } else if (context instanceof SqlBaseParser.StarContext) {
            noteStar((SqlBaseParser.StarContext) context);
        }
    }

    private void noteView(ParserRuleContext context, ParserRuleContext query) {
        if (query == null) {
            return;
        }
        viewText = new ViewText();
        viewText.query = spanOf(query);
        TerminalNode as = null;
        for (int i = 0; i < context.getChildCount() && context.getChild(i) != query; i++) {
            as = context.getChild(i) instanceof TerminalNode ? (TerminalNode) context.getChild(i) : null;
        }
        if (Grammar.properties(context) != null) {
            viewText.place = spanOf(Grammar.properties(context));
            for (int i = 0; i < Grammar.properties(context).getChildCount(); i++) {
                if (Grammar.properties(context).getChild(i) instanceof ParserRuleContext) {
                    viewText.properties.add(
                        spanOf((ParserRuleContext) Grammar.properties(context).getChild(i)).json());
                }
            }
        } else if (as != null) {
            viewText.place =
                new ParsedText.Span(as.getSymbol().getStartIndex(), as.getSymbol().getStopIndex() + 1);
        }
    }

    private void noteName(ParserRuleContext context) {
        ParsedText.Span span = spanOf(context);
        if (span == null) {
            return;
        }
        Long key = Long.valueOf(span.key());
        List contexts = (List) names.get(key);
        if (contexts == null) {
            contexts = new ArrayList(1);
            names.put(key, contexts);
        }
        contexts.add(context);
        ParserRuleContext parent = (ParserRuleContext) context.getParent();
        boolean objectName = context instanceof SqlBaseParser.TableIdentifierContext
            || parent instanceof SqlBaseParser.IdentifierReferenceContext;
        if (objectName && !withinQuery(context)) {
            statementNames.add(new StatementName(span, writtenParts(context)));
        }
    }

    /** COMMENT ON COLUMN t.c: what stands before the last part of the name is that of the table. */
    private void noteTableOf(SqlBaseParser.MultipartIdentifierContext column) {
        if (column == null) {
            return;
        }
        List parts = writtenParts(column);
        List identifiers = column.errorCapturingIdentifier();
        if (parts.size() > 1 && parts.size() == identifiers.size()) {
            ParsedText.Span first = spanOf((ParserRuleContext) identifiers.get(0));
            ParsedText.Span last = spanOf((ParserRuleContext) identifiers.get(parts.size() - 2));
            if (first != null && last != null) {
                ParsedText.Span span = new ParsedText.Span(first.start, last.end);
                statementNames.add(new StatementName(span, new ArrayList(parts.subList(0, parts.size() - 1))));
            }
        }
    }

    private static boolean withinQuery(ParserRuleContext context) {
        for (Object at = context; at != null; at = ((ParserRuleContext) at).getParent()) {
            if (at instanceof SqlBaseParser.QueryContext || at instanceof SqlBaseParser.ExpressionContext) {
                return true;
            }
        }
        return false;
    }

    private void noteTableName(SqlBaseParser.TableNameContext context) {
        ParserRuleContext reference = Grammar.temporalName(context);
        if (Grammar.hasWatermark(context)) {
            return;
        }
        int suffixStart = -1;
        int suffixEnd = -1;
        boolean bare = reference instanceof SqlBaseParser.IdentifierReferenceContext;
        for (int i = 0; !bare && i < reference.getChildCount() && suffixStart < 0; i++) {
            if (reference.getChild(i) instanceof TerminalNode) {
                suffixStart = ((TerminalNode) reference.getChild(i)).getSymbol().getStartIndex();
                suffixEnd = spanOf(reference).end;
            }
        }
        ParserRuleContext[] clauses = {context.temporalClause(), Grammar.options(context)};
        for (int i = 0; i < clauses.length; i++) {
            if (clauses[i] != null) {
                suffixStart = suffixStart < 0 ? spanOf(clauses[i]).start : suffixStart;
                suffixEnd = spanOf(clauses[i]).end;
            }
        }
        ParsedText.Span suffix = suffixStart < 0 ? null : new ParsedText.Span(suffixStart, suffixEnd);
        noteScan(Grammar.nameIn(reference), suffix, context.sample(), context.tableAlias());
    }

    private void noteMergeSource(SqlBaseParser.MergeIntoTableContext context) {
        if (context.source != null) {
            ParserRuleContext options = Grammar.sourceOptions(context);
            ParsedText.Span suffix = options == null ? null : spanOf(options);
            noteScan(context.source, suffix, null, context.sourceAlias);
        }
    }

    private void noteScan(
        SqlBaseParser.IdentifierReferenceContext identifier,
        ParsedText.Span suffix,
        SqlBaseParser.SampleContext sample,
        SqlBaseParser.TableAliasContext alias) {
        ParsedText.Span name = spanOf(identifier);
        boolean aliased = alias != null && alias.strictIdentifier() != null;
        Form form = new Form();
        form.kind = aliased ? ALIASED : BARE;
        form.suffix = suffix;
        int end = suffix == null ? name.end : suffix.end;
        if (sample != null) {
            form.sample = spanOf(sample);
            if (aliased) {
                end = spanOf(alias).end;
                form.alias = new ParsedText.Span(spanOf(alias.strictIdentifier()).start, end);
            }
        }
        form.whole = new ParsedText.Span(name.start, end);
        put(identifier, form);
    }

    private void noteTableArgument(SqlBaseParser.FunctionTableSubqueryArgumentContext context) {
        if (context.identifierReference() == null) {
            return;
        }
        Form form = new Form();
        form.kind = TABLE_ARGUMENT;
        form.whole = spanOf(context.identifierReference());
        put(context.identifierReference(), form);
    }

    private void noteStar(SqlBaseParser.StarContext context) {
        ParsedText.Span span = spanOf(context);
        int end = context.ASTERISK().getSymbol().getStopIndex() + 1;
        stars.put(Long.valueOf(span.key()), new ParsedText.Span(span.start, end));
    }

    private void put(ParserRuleContext name, Form form) {
        ParsedText.Span span = spanOf(name);
        if (span != null) {
            forms.put(Long.valueOf(span.key()), form);
        }
    }

    /** The code points from a context's first token to its last, quotes included; null for an empty one. */
    private ParsedText.Span spanOf(ParserRuleContext context) {
        if (context.getStart() == null || context.getStop() == null) {
            return null;
        }
        int start = context.getStart().getStartIndex();
        int end = context.getStop().getStopIndex() + 1;
        return start < 0 || end <= start || end > parsed.length() ? null : new ParsedText.Span(start, end);
    }

    /** The parts of a written name, read from the statement's text and not from Spark's rewritten tokens. */
    private List writtenParts(ParserRuleContext context) {
        ArrayList parts = new ArrayList();
        ParserRuleContext at = context;
        while (at instanceof SqlBaseParser.DereferenceContext) {
            SqlBaseParser.DereferenceContext dereference = (SqlBaseParser.DereferenceContext) at;
            parts.add(0, unquoted(dereference.fieldName));
            at = dereference.base;
        }
        if (at instanceof SqlBaseParser.ColumnReferenceContext) {
            parts.add(0, unquoted(((SqlBaseParser.ColumnReferenceContext) at).identifier()));
            return parts;
        }
        if (at != context) {
            return null;
        }
        for (int i = 0; i < at.getChildCount(); i++) {
            if (at.getChild(i) instanceof ParserRuleContext) {
                parts.add(unquoted((ParserRuleContext) at.getChild(i)));
            }
        }
        return parts;
    }

    private String unquoted(ParserRuleContext identifier) {
        ParsedText.Span span = spanOf(identifier);
        if (span == null) {
            return null;
        }
        String raw = parsed.slice(span.start, span.end);
        if (raw.length() >= 2 && raw.charAt(0) == '`' && raw.charAt(raw.length() - 1) == '`') {
            return raw.substring(1, raw.length() - 1).replace("``", "`");
        }
        return raw;
    }
}
