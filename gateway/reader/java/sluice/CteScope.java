package sluice;

import java.util.Locale;

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
        return new CteScope(this, added.toLowerCase(Locale.ROOT));
    }

    boolean has(String wanted) {
        String lower = wanted.toLowerCase(Locale.ROOT);
        for (CteScope at = this; at != EMPTY; at = at.outer) {
            if (at.name.equals(lower)) {
                return true;
            }
        }
        return false;
    }
}
