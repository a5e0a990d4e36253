package sluice;

/** Bounds inside the parser process. The client has its own, checked before a statement comes here. */
final class Limits {
    /** Largest request frame in bytes; the client's longest statement, three times over and escaped. */
    static final int FRAME_BYTES = 64 << 20;

    /** Stack of a working thread. Spark's own threads have 1 MB; a statement that needs more fails there. */
    static final long STACK_BYTES = 64L << 20;

    /** Characters of one canonical plan. A statement of a million characters stays below 40 million. */
    static final int CANONICAL_CHARS = 60 << 20;

    /** Nested values shown for one field of a command. Deeper ones are shown as elided, never dropped. */
    static final int FIELD_DEPTH = 24;

    /** Parsed texts that are kept for the next request, at most, and characters of the longest that is. */
    static final int KEPT_TEXTS = 32;
    static final int KEPT_CHARS = 8000;
    /** The same of guards, which come again with every statement on their table, and are kept without trees. */
    static final int KEPT_GUARDS = 512;

    /** States of its prediction that ANTLR may remember between two requests. */
    static final int PREDICTION_STATES = Integer.getInteger("sluice.states", 20000).intValue();

    private Limits() {}
}
