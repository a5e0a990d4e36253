package sluice;

import java.lang.reflect.Field;
import java.util.Map;
import org.antlr.v4.runtime.atn.ATN;
import org.antlr.v4.runtime.atn.PredictionContextCache;
import org.antlr.v4.runtime.dfa.DFA;
import org.apache.spark.sql.catalyst.parser.AbstractParser;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.SqlBaseParser;

/**
 * What ANTLR remembers of the texts that it saw. It grows with every new shape of statement, without end; since
 * 4.1 Spark empties it when a setting says so, and before that we do.
 *
 * It may be emptied at any time: a parser at work keeps what it has in hand, and the rest is learnt anew.
 */
final class ParserCaches {
    private static final boolean OURS =
        ScalaValues.known("org.apache.spark.sql.catalyst.parser.AbstractParser$AntlrCaches") == null;
    private static final DFA[] PARSER = (DFA[]) shared(SqlBaseParser.class, "_decisionToDFA");
    private static final DFA[] LEXER = (DFA[]) shared(SqlBaseLexer.class, "_decisionToDFA");

    private ParserCaches() {}

    /** Empties the memory when it has become too large; called after each request. */
    static synchronized void keepBounds() {
        if (OURS && states() > Limits.PREDICTION_STATES) {
            forget(PARSER, SqlBaseParser._ATN, SqlBaseParser.class);
            forget(LEXER, SqlBaseLexer._ATN, SqlBaseLexer.class);
        }
    }

    /** States that are remembered, of all texts together. */
    static long states() {
        if (!OURS) {
            return ((Number) ScalaValues.callStatic(AbstractParser.class, "getDFACacheNumStates")).longValue();
        }
        return count(PARSER) + count(LEXER);
    }

    private static long count(DFA[] decisions) {
        long states = 0;
        for (int i = 0; i < decisions.length; i++) {
            states += decisions[i].states.size();
        }
        return states;
    }

    private static void forget(DFA[] decisions, ATN atn, Class of) {
        for (int i = 0; i < decisions.length; i++) {
            decisions[i] = new DFA(atn.getDecisionState(i), i);
        }
        PredictionContextCache contexts = (PredictionContextCache) shared(of, "_sharedContextCache");
        // ANTLR itself holds this lock while it looks something up.
        synchronized (contexts) {
            ((Map) value(PredictionContextCache.class, "cache", contexts)).clear();
        }
    }

    private static Object shared(Class of, String field) {
        return value(of, field, null);
    }

    private static Object value(Class of, String field, Object in) {
        try {
            Field found = of.getDeclaredField(field);
            found.setAccessible(true);
            return found.get(in);
        } catch (ReflectiveOperationException other) {
            throw new IllegalStateException("this ANTLR keeps what it remembers elsewhere", other);
        }
    }
}
