package sluice;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.analysis.ExpressionWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Concat;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Names that a text gives as string literals, `IDENTIFIER('db.t')`, or as literals put together, written out.
 *
 * The text with the names in it has to be the plan that Spark's analyzer makes of the other one. Where it is
 * not, nothing is written out. `IDENTIFIER('s').f` is a field of a column, as `s['f']` is; `s.f` may be a column
 * of a table.
 */
final class WrittenNames {
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9_]+");

    private WrittenNames() {}

    /** The text with its names written out; null when it gives none as a literal, or when that would be
     *  another plan. Throws what Spark throws for a literal that is no name. */
    static String of(ParsedText parsed, boolean expression) {
        TreeMap names = names(parsed);
        if (names.isEmpty()) {
            return null;
        }
        StringBuilder text = new StringBuilder();
        int at = 0;
        Iterator each = names.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry name = (Map.Entry) each.next();
            ParsedText.Span span = ParsedText.Span.ofKey(((Long) name.getKey()).longValue());
            text.append(parsed.slice(at, span.start)).append(name.getValue());
            at = span.end;
            ParsedText.Span field = (ParsedText.Span) parsed.forms().fieldsTaken.get(name.getKey());
            if (field != null && PLAIN.matcher(parsed.slice(field.start, field.end)).matches()) {
                text.append("['").append(parsed.slice(field.start, field.end)).append("']");
                at = field.end;
            }
        }
        text.append(parsed.slice(at, parsed.length()));
        String written = text.toString();
        return Prover.same(parsed, ParsedText.of(written, expression)) ? written : null;
    }

    /** Range of an IDENTIFIER clause → the name in it, quoted; in the order of the text. */
    private static TreeMap names(ParsedText parsed) {
        TreeMap names = new TreeMap();
        Iterator each = parsed.forms().identifierClauses.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry clause = (Map.Entry) each.next();
            ParsedText.Span argument = (ParsedText.Span) clause.getValue();
            Object name = CatalystSqlParser$.MODULE$.parseExpression(parsed.slice(argument.start, argument.end));
            String constant = constant(name);
            if (constant != null) {
                names.put(clause.getKey(), Prover.quoted(ScalaValues.strings(parts(constant))));
            }
        }
        return names;
    }

    /** The ranges of what stands in the brackets of the IDENTIFIER clauses of a text. */
    static List arguments(ParsedText parsed) {
        List arguments = new ArrayList();
        Iterator each = parsed.forms().identifierClauses.values().iterator();
        while (each.hasNext()) {
            arguments.add(((ParsedText.Span) each.next()).json());
        }
        return arguments;
    }

    /** What Spark's analyzer makes of a node: of one that stands for a name given as a literal what is meant
     *  by it, of every other the node itself. */
    static Object meant(Object node) {
        if (node instanceof UnresolvedAlias && ((UnresolvedAlias) node).aliasFunc().isEmpty()) {
            Object child = ((UnresolvedAlias) node).child();
            Object meant = meant(child);
            // What has a name gets no other; the parser knew no name here.
            return meant != child && meant instanceof NamedExpression ? meant : node;
        }
        if (node instanceof ExpressionWithUnresolvedIdentifier) {
            ExpressionWithUnresolvedIdentifier named = (ExpressionWithUnresolvedIdentifier) node;
            String constant = constant(named.identifierExpr());
            if (constant != null) {
                return built(named, "exprBuilder", constant, "otherExprs");
            }
        } else if (node instanceof PlanWithUnresolvedIdentifier) {
            PlanWithUnresolvedIdentifier named = (PlanWithUnresolvedIdentifier) node;
            String constant = constant(named.identifierExpr());
            if (constant != null) {
                return built(named, "planBuilder", constant, "children");
            }
        } else if (node instanceof LogicalPlan && "UnresolvedInsert".equals(ScalaValues.name(node))) {
            return inserted(node);
        }
        return node;
    }

    /** An INSERT whose target is such a name is one into a relation, from Spark 4.2 on. */
    private static Object inserted(Object insert) {
        Object target = meant(ScalaValues.callOr(insert, "table", null));
        if (target == null || !"UnresolvedInsertTarget".equals(ScalaValues.name(target))) {
            return insert;
        }
        UnresolvedRelation relation = new UnresolvedRelation(
            (scala.collection.immutable.Seq) ScalaValues.callOr(target, "multipartIdentifier", null),
            (org.apache.spark.sql.util.CaseInsensitiveStringMap) ScalaValues.callOr(target, "options", null), false);
        Object asking = ScalaValues.callWith(
            relation, "requireWritePrivileges", ScalaValues.callOr(target, "writePrivileges", null));
        return ScalaValues.callWith(insert, "toInsertIntoStatement", asking);
    }

    /** Builders of Spark 3.5 are given the name alone, later ones what else the node holds, too. */
    private static Object built(Object named, String builder, String name, String rest) {
        Object build = ScalaValues.callOr(named, builder, null);
        return build instanceof scala.Function1
            ? ((scala.Function1) build).apply(parts(name))
            : ((scala.Function2) build).apply(parts(name), ScalaValues.callOr(named, rest, null));
    }

    /** The string that an expression is: a literal, or literals put together; null for everything else. */
    private static String constant(Object expression) {
        if (expression instanceof Literal) {
            Object value = ((Literal) expression).value();
            return value instanceof UTF8String ? value.toString() : null;
        }
        List parts = null;
        if (expression instanceof Concat) {
            parts = ScalaValues.list(((Concat) expression).children());
        } else if (expression instanceof UnresolvedFunction) {
            UnresolvedFunction function = (UnresolvedFunction) expression;
            List name = ScalaValues.strings(function.nameParts());
            boolean plain = !function.isDistinct() && function.filter().isEmpty();
            if (plain && name.size() == 1 && "concat".equalsIgnoreCase((String) name.get(0))) {
                parts = ScalaValues.list(function.arguments());
            }
        }
        StringBuilder together = new StringBuilder();
        for (int i = 0; parts != null && i < parts.size(); i++) {
            String part = constant(parts.get(i));
            if (part == null) {
                return null;
            }
            together.append(part);
        }
        return parts == null ? null : together.toString();
    }

    private static scala.collection.Seq parts(String name) {
        return CatalystSqlParser$.MODULE$.parseMultipartIdentifier(name);
    }
}
