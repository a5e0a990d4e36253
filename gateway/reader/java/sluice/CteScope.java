package sluice;

/** Names of the common table expressions that a place in a plan can refer to; grows by one, never changes. */
final class CteScope {
    static final CteScope EMPTY = new CteScope(null, null);

    private final CteScope outer;
    private final String name;

    private CteScope(CteScope outer, String name) {
        this.outer = outer;
        this.name = name;
    }

    CteScope with(String added) {
        return new CteScope(this, added);
    }

    boolean has(String wanted) {
        // As Spark compares: letter by letter. Lower-casing would make `İ` two letters and find a name that
        // Spark does not find, so that a table would pass for a reference.
        for (CteScope at = this; at != EMPTY; at = at.outer) {
            if (at.name.equalsIgnoreCase(wanted)) {
                return true;
            }
        }
        return false;
    }
}
