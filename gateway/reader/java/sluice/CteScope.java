package sluice;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** Names of the common table expressions that a place in a plan can refer to; grows by one, never changes. */
final class CteScope {
    static final CteScope EMPTY = new CteScope(null, null, null);

    /** What the query behind the name can refer to. */
    final CteScope outer;
    /** The query behind the name; null for one that may refer to itself. */
    final LogicalPlan plan;
    private final String name;

    private CteScope(CteScope outer, String name, LogicalPlan plan) {
        this.outer = outer;
        this.name = name;
        this.plan = plan;
    }

    CteScope with(String added, LogicalPlan query) {
        return new CteScope(this, added, query);
    }

    boolean has(String wanted) {
        return find(wanted) != null;
    }

    /** The innermost expression of that name, or null. */
    CteScope find(String wanted) {
        // As Spark compares: letter by letter. Lower-casing would make `İ` two letters and find a name that
        // Spark does not find, so that a table would pass for a reference.
        for (CteScope at = this; at != EMPTY; at = at.outer) {
            if (at.name.equalsIgnoreCase(wanted)) {
                return at;
            }
        }
        return null;
    }
}
