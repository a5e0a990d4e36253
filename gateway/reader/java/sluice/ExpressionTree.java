package sluice;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * An expression as a tree of plain values, with the plans of its subqueries, for whoever asks for its types.
 *
 * A row filter or a mask is small. What is deep or large is some user's, and nobody asks: it has no tree.
 */
final class ExpressionTree {
    private static final List NONE = new ArrayList();
    private static final int MOST_NODES = 2000;
    private static final int MOST_LEVELS = 100;

    private int nodes;

    private ExpressionTree() {}

    /** The tree, or null for an expression that is too large. */
    static Map of(Expression root) {
        ExpressionTree tree = new ExpressionTree();
        Map told = tree.expression(root, 0);
        return tree.nodes > MOST_NODES ? null : told;
    }

    private Map expression(Expression expression, int level) {
        if (full(level)) {
            return null;
        }
        Map told = node(expression, expressions(expression.children(), level), NONE);
        if (expression instanceof Literal) {
            told.put("type", ((Literal) expression).dataType().simpleString());
        } else if (expression instanceof Cast) {
            told.put("type", ((Cast) expression).dataType().simpleString());
            told.put("mode", ((Cast) expression).evalMode().toString());
        } else if (expression instanceof UnresolvedAttribute) {
            told.put("parts", ScalaValues.strings(((UnresolvedAttribute) expression).nameParts()));
        } else if (expression instanceof UnresolvedFunction) {
            told.put("parts", ScalaValues.strings(((UnresolvedFunction) expression).nameParts()));
        } else if (expression instanceof SubqueryExpression) {
            List plans = new ArrayList();
            plans.add(plan((LogicalPlan) ((SubqueryExpression) expression).plan(), level + 1));
            told.put("plans", plans);
        }
        return told;
    }

    private Map plan(LogicalPlan plan, int level) {
        if (full(level)) {
            return null;
        }
        List plans = new ArrayList();
        List inputs = ScalaValues.list(plan.children());
        for (int i = 0; i < inputs.size(); i++) {
            plans.add(plan((LogicalPlan) inputs.get(i), level + 1));
        }
        Map told = node(plan, expressions(plan.expressions(), level), plans);
        if (plan instanceof UnresolvedRelation) {
            told.put("parts", ScalaValues.strings(((UnresolvedRelation) plan).multipartIdentifier()));
        }
        return told;
    }

    private static Map node(TreeNode node, List children, List plans) {
        Map told = new LinkedHashMap();
        told.put("node", ScalaValues.name(node));
        told.put("type", "");
        told.put("mode", "");
        told.put("parts", NONE);
        told.put("children", children);
        told.put("plans", plans);
        return told;
    }

    /** Whether the tree has become too large; then it is given up as a whole. */
    private boolean full(int level) {
        nodes = level > MOST_LEVELS ? MOST_NODES + 1 : nodes + 1;
        return nodes > MOST_NODES;
    }

    private List expressions(Object seq, int level) {
        List all = ScalaValues.list((scala.collection.Iterable) seq);
        List told = new ArrayList(all.size());
        for (int i = 0; i < all.size(); i++) {
            told.add(expression((Expression) all.get(i), level + 1));
        }
        return told;
    }
}
