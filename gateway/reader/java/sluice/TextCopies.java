package sluice;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The texts within a statement that Spark keeps, to parse them again without what stands around them. */
final class TextCopies {
    private TextCopies() {}

    static List of(Object plan) {
        List copies = new ArrayList();
        if (PlanWalk.isCommand(plan)) {
            note((LogicalPlan) plan, copies);
        }
        return copies;
    }

    private static void note(LogicalPlan plan, List copies) {
        for (int i = 0; i < plan.productArity(); i++) {
            Object element = plan.productElement(i);
            if (element instanceof scala.Option && ((scala.Option) element).isDefined()) {
                element = ((scala.Option) element).get();
            }
            if (element instanceof LogicalPlan && PlanWalk.isCommand(element)) {
                note((LogicalPlan) element, copies);
            } else if (element instanceof String && CanonicalDump.isTextCopy(ScalaValues.name(plan), plan, i)) {
                copies.add(element);
            }
        }
    }
}
