package sluice;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.CurrentUser;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;

/**
 * Where a text asks who the user is: `current_user()`, `user()`, `session_user()`, qualified or not, and the
 * same words without brackets, which mean a column first and the function when there is no such column.
 */
final class Identities {
    private static final String[] NAMES = {"current_user", "session_user", "user"};

    /** Operators that look for a name in what they read first. */
    private static final Set RESOLVING = new HashSet(Arrays.asList("Project", "Aggregate", "Filter", "Sort"));
    /** Operators that show the columns of what they read. */
    private static final Set PASSING = new HashSet(Arrays.asList(
        "SubqueryAlias", "Filter", "Sort", "Distinct", "GlobalLimit", "LocalLimit", "Offset", "PipeOperator"));

    private static final Pattern[] WORDS = {word(NAMES[0]), word(NAMES[1]), word(NAMES[2])};

    private static final class Place {
        final String name;
        final boolean bare;
        ParsedText.Span span;
        boolean output;
        /** Whether it is a column for certain: what its operator reads has one of that name. */
        boolean column;

        Place(String name, boolean bare) {
            this.name = name;
            this.bare = bare;
        }
    }

    private final ParsedText parsed;
    private final List places = new ArrayList();
    /** Range that a literal replaces → the nodes that it stands in for. */
    private final Map nodes = new HashMap();
    /** Expression → the UnresolvedAlias around it, which names its column. */
    private final IdentityHashMap aliased = new IdentityHashMap();
    private final IdentityHashMap noted = new IdentityHashMap();
    /** The operator whose expressions are noted, and the common table expressions that it may refer to. */
    LogicalPlan operator;
    CteScope scope = CteScope.EMPTY;

    Identities(ParsedText parsed) {
        this.parsed = parsed;
    }

    void note(Expression expression) {
        if (expression instanceof UnresolvedAlias) {
            aliased.put(((UnresolvedAlias) expression).child(), expression);
        } else if (expression instanceof UnresolvedFunction) {
            UnresolvedFunction function = (UnresolvedFunction) expression;
            String name = function.arguments().isEmpty()
                ? builtinName(ScalaValues.strings(function.nameParts())) : null;
            add(expression, name, false);
        } else if (expression instanceof UnresolvedAttribute) {
            List parts = ScalaValues.strings(((UnresolvedAttribute) expression).nameParts());
            add(expression, parts.size() == 1 ? known((String) parts.get(0)) : null, true);
        } else if (expression instanceof UnresolvedNamedLambdaVariable) {
            List parts = ScalaValues.strings(((UnresolvedNamedLambdaVariable) expression).nameParts());
            String name = parts.size() == 1 ? known((String) parts.get(0)) : null;
            if (name != null) {
                // It may be the lambda's own variable, a column or the function.
                places.add(new Place(name, true));
            }
        } else if (expression instanceof CurrentUser) {
            places.add(new Place("current_user", false));
        }
    }

    private void add(Expression node, String name, boolean bare) {
        if (name == null || noted.put(node, Boolean.TRUE) != null) {
            return;
        }
        Place place = new Place(name, bare);
        place.column = bare && reads(word(node), operator, scope);
        places.add(place);
        ParsedText.Span span = parsed.originOf(node);
        if (span == null || !parsed.forms().isCallOrName(span)) {
            return;
        }
        ParsedText.Span item = parsed.forms().itemAt(span);
        place.output = item != null;
        place.span = item == null ? span : item;
        boolean wrapped = place.output && aliased.containsKey(node);
        Long key = Long.valueOf(place.span.key());
        if (!nodes.containsKey(key)) {
            nodes.put(key, new ArrayList(1));
        }
        ((List) nodes.get(key)).add(wrapped ? aliased.get(node) : node);
    }

    /** The name that a reference has, as it is written. */
    private static String word(Expression reference) {
        List parts = ScalaValues.strings(((UnresolvedAttribute) reference).nameParts());
        return (String) parts.get(parts.size() - 1);
    }

    /**
     * Whether what an operator reads has a column of this name for certain, written in the same letters. Spark
     * looks for columns before it looks for functions, so that the word is the column.
     */
    private static boolean reads(String word, LogicalPlan operator, CteScope scope) {
        if (operator == null || !RESOLVING.contains(ScalaValues.name(operator))
            || operator.children().size() != 1) {
            return false;
        }
        LogicalPlan plan = (LogicalPlan) operator.children().head();
        while (true) {
            if (plan instanceof UnresolvedRelation) {
                List parts = ScalaValues.strings(((UnresolvedRelation) plan).multipartIdentifier());
                CteScope named = parts.size() == 1 ? scope.find((String) parts.get(0)) : null;
                if (named == null || named.plan == null) {
                    return false;
                }
                plan = named.plan;
                scope = named.outer;
            } else if (PASSING.contains(ScalaValues.name(plan)) && plan.children().size() == 1) {
                plan = (LogicalPlan) plan.children().head();
            } else {
                break;
            }
        }
        if (plan instanceof UnresolvedSubqueryColumnAliases) {
            Object names = ((UnresolvedSubqueryColumnAliases) plan).outputColumnNames();
            return ScalaValues.strings(names).contains(word);
        }
        if (plan instanceof Project) {
            return shows(word, ScalaValues.list(((Project) plan).projectList()), plan, scope);
        }
        return plan instanceof Aggregate
            && shows(word, ScalaValues.list(((Aggregate) plan).aggregateExpressions()), plan, scope);
    }

    private static boolean shows(String word, List items, LogicalPlan operator, CteScope scope) {
        for (int i = 0; i < items.size(); i++) {
            Object item = items.get(i);
            while (item instanceof UnresolvedAlias || "PipeExpression".equals(ScalaValues.name(item))) {
                item = ((Expression) item).children().head();
            }
            if (item instanceof Alias && ((Alias) item).name().equals(word)) {
                return true;
            }
            if (item instanceof UnresolvedAttribute && word((Expression) item).equals(word)) {
                boolean qualified = ((UnresolvedAttribute) item).nameParts().size() > 1;
                return qualified || reads(word, operator, scope);
            }
        }
        return false;
    }

    private static Pattern word(String name) {
        return Pattern.compile("(?<![\\p{L}\\p{N}_])" + name + "(?![\\p{L}\\p{N}_])",
            Pattern.CASE_INSENSITIVE | Pattern.UNICODE_CASE);
    }

    private static String builtinName(List parts) {
        int size = parts.size();
        boolean builtin = size == 1
            || (size == 2 && "builtin".equalsIgnoreCase((String) parts.get(0)))
            || (size == 3 && "system".equalsIgnoreCase((String) parts.get(0))
                && "builtin".equalsIgnoreCase((String) parts.get(1)));
        return builtin ? known((String) parts.get(size - 1)) : null;
    }

    private static String known(String name) {
        for (int i = 0; i < NAMES.length; i++) {
            if (NAMES[i].equalsIgnoreCase(name)) {
                return NAMES[i];
            }
        }
        return null;
    }

    /** The nodes that a literal at this range stands in for. */
    List at(ParsedText.Span span) {
        List found = (List) nodes.get(Long.valueOf(span.key()));
        return found == null ? new ArrayList() : found;
    }

    /** Whether this is a string literal, or bytes cast to one, with or without the name of an identity. */
    static boolean isValue(Object expression) {
        if (expression instanceof Alias) {
            Alias alias = (Alias) expression;
            String name = alias.name();
            boolean call = name.endsWith("()") && known(name.substring(0, name.length() - 2)) != null
                && name.equals(name.toLowerCase(Locale.ROOT));
            return call && isPlain(alias.child());
        }
        return isPlain(expression);
    }

    private static boolean isPlain(Object expression) {
        if (expression instanceof Cast) {
            Cast cast = (Cast) expression;
            return isString(cast.dataType()) && cast.child() instanceof Literal
                && cast.child().dataType() instanceof org.apache.spark.sql.types.BinaryType;
        }
        return expression instanceof Literal && isString(((Literal) expression).dataType());
    }

    private static boolean isString(org.apache.spark.sql.types.DataType type) {
        return type.sql().equals("STRING");
    }

    List json() {
        Set told = new LinkedHashSet();
        Set elsewhere = places.isEmpty() ? new HashSet() : elsewhere();
        for (int i = 0; i < places.size(); i++) {
            Place place = (Place) places.get(i);
            Map one = new LinkedHashMap();
            one.put("name", place.name);
            one.put("span", place.span == null ? null : place.span.json());
            one.put("output", Boolean.valueOf(place.output));
            one.put("bare", Boolean.valueOf(place.bare));
            one.put("sure", Boolean.valueOf(!place.bare || !elsewhere.contains(place.name)));
            one.put("nested", Boolean.valueOf(parsed.forms().nested()));
            one.put("column", Boolean.valueOf(place.column));
            told.add(one);
        }
        return new ArrayList(told);
    }

    /** The names whose words stand elsewhere in the text too: as an alias, say, or in a schema. */
    private Set elsewhere() {
        String rest = rest();
        Set found = new HashSet();
        for (int i = 0; i < NAMES.length; i++) {
            if (rest == null || WORDS[i].matcher(rest).find()) {
                found.add(NAMES[i]);
            }
        }
        return found;
    }

    /** The text around all places, or null when one of them has no range. */
    private String rest() {
        TreeMap own = new TreeMap();
        for (int i = 0; i < places.size(); i++) {
            ParsedText.Span span = ((Place) places.get(i)).span;
            if (span == null) {
                return null;
            }
            own.put(Integer.valueOf(span.start), span);
        }
        StringBuilder rest = new StringBuilder();
        int at = 0;
        Iterator each = own.values().iterator();
        while (each.hasNext()) {
            ParsedText.Span span = (ParsedText.Span) each.next();
            if (span.start >= at) {
                rest.append(parsed.slice(at, span.start)).append(' ');
                at = span.end;
            }
        }
        return rest.append(parsed.slice(at, parsed.length())).toString();
    }
}
