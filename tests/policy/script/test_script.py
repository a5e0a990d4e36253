"""The expression language: what it means, what it refuses, and that nothing makes it run away."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.context import AccessContext
from gateway.model.tags import Tag
from gateway.policy.facts import Facts
from gateway.policy.script import Indeterminate, ScriptValue, Untranslatable, parse
from gateway.policy.script.names import BARE, CALLED, CONTEXT
from gateway.policy.script.values import UNDEFINED
from tests.effort import tries

PII = Tag(type="PII", attributes={"attr1": "PII_value", "level": "3", "expiry": "2026/06/15"})
PCI = Tag(type="PCI", attributes={"attr1": "PCI_value"})
NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
FACTS = Facts(
    user="test-user",
    groups=frozenset({"test-group2", "test-group1"}),
    roles=frozenset({"test-role1", "test-role2"}),
    user_attributes={"state": ("CA",), "dept": ("ENGG",), "partners": ("p-1,p-2",), "many": ("a", "b")},
    group_attributes={
        "test-group1": {"dept": "ENGG", "site": "10"},
        "test-group2": {"dept": "PROD", "site": "20"},
    },
    resource={"database": "db1", "table": "tbl1", "column": "col1"},
    owner="testUser",
    access="select",
    context=AccessContext(
        time=NOON,
        client_ip="10.20.1.2",
        action="query",
        cluster="c1",
        request_data="SELECT 1",
        session_id="s-1",
        forwarded=("10.0.0.1",),
        attributes=(("country", ("US",)), ("cities", ("x", "y"))),
    ),
    tags=(PII, PCI),
    tag=PII,
)
NOBODY = Facts(user="nobody")


def value(script: str, facts: Facts = FACTS) -> ScriptValue:
    return parse(script).value(facts)


def holds(script: str, facts: Facts = FACTS) -> bool | None:
    return parse(script).holds(facts)


TRUE = [
    # literals and operators
    "true",
    "!false",
    "1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3",
    "1 == '1' && 1 !== '1' && null == undefined && null !== undefined",
    "'b' > 'a' && 'B' < 'a' && '5' > '10' && 5 < 10 && '5' < 10",
    "1 + 2 == 3 && '1' + 2 == '12' && 1 - '1' == 0 && -(1) == -1 && +'7' == 7",
    "1 - 1 - 1 == -1 && 2 + 2 - 1 == 3",
    "!0 && !'' && !null && !undefined && !!'0' && !![] && !(0 - 0)",
    "(false || 'x') == 'x' && (true && 'y') == 'y' && (0 || null) === null",
    "true ? true : false",
    "false ? false : true ? true : false",
    "false || false || true",
    "1 == 1.0 && 0.5 < 1 && 1.50 + '' == '1.5'",
    "!('a' < 1) && !('a' >= 1) && !(undefined >= 0) && !(undefined <= 0)",
    "null >= 0 && !(null == 0)",
    "true == 1 && true !== 1 && '1' == true",
    "'\\'\\u0041\\x42\\n' == \"'AB\\n\"",
    "[1,2] == '1,2' && ['a'] == 'a' && [] == ''",
    "'abc'[1] == 'b' && ['x','y'][1] == 'y' && ['x'][5] == undefined",
    "true // a comment",
    "/* a comment */ true",
    # variables
    "USER._name == 'test-user' && USER['state'] == 'CA' && USER.state == 'CA'",
    "USER.nothing == null && USER.nothing == undefined && USER.nothing === undefined",
    "UG['test-group1'].dept == 'ENGG' && UG['test-group1'].site == 10",
    "UG['test-group2']._name == 'test-group2'",
    "UG['test-group3'] == null && UG['test-group1'].nothing == null",
    "UGA.sVal['dept'] == 'ENGG' && UGA.sVal.site == 10 && UGA.sVal.nothing == null",
    'J(UGA.mVal[\'dept\']) == \'["ENGG","PROD"]\' && JSON.stringify(UGA.mVal.site) == \'["10","20"]\'',
    "UGA.mVal['dept'].indexOf('PROD') != -1 && UGA.mVal['dept'].indexOf('EXEC') == -1",
    "UGNAMES.length == 2 && UGNAMES[0] == 'test-group1' && URNAMES.includes('test-role2')",
    "REQ.accessType == 'select' && REQ.action == 'query' && REQ.user == 'test-user'",
    "REQ.clientIPAddress.startsWith('10.20.') && REQ['clusterName'] == 'c1' && REQ.clusterType == null",
    "REQ.accessTime == 1781524800000 && REQ.userAttributes.state == 'CA' && REQ.resource.table == 'tbl1'",
    "REQ.forwardedAddresses.includes('10.0.0.1') && REQ.requestData.includes('SELECT')",
    "REQ.resourceMatchingScope == 'SELF'",
    "RES._ownerUser == 'testUser' && RES.database == 'db1' && RES.column == 'col1'",
    "TAG._type == 'PII' && TAG.attr1 == 'PII_value' && TAG.level >= 3",
    "Object.keys(TAGS).length == 2 && TAGS['PII'].attr1 == 'PII_value' && TAGS.PCI.attr1 == 'PCI_value'",
    "TAGS['PII'].nothing == undefined && TAGS['X'] == null && TAGNAMES.length == 2",
    "tag.getType() == 'PII' && tag.type == 'PII' && tag.attributes.attr1 == tag.getAttributes().get('attr1')",
    "tagAttr.get('attr1') == 'PII_value' && tagAttr.get('x') == null && tagAttr.containsKey('level')",
    # methods
    "'abc'.includes('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.indexOf('c') == 2",
    "'a'.equals('a') && !'a'.equals('A') && 'a'.equalsIgnoreCase('A') && !'a'.equals(null)",
    "'aB'.toLowerCase() == 'ab' && 'aB'.toUpperCase() == 'AB' && ' a '.trim() == 'a' && 'abc'.length == 3",
    "'a,b'.split(',').length == 2 && 'a,b'.split(',').includes('b') && 'ab'.split('').length == 2",
    "['a','b'].join('|') == 'a|b' && ['a'].size() == 1 && [].isEmpty() && ['a'].contains('a')",
    "['sales', 'mktg'].intersects(['mktg', 'hr']) && !['sales'].intersects(['hr'])",
    "!['sales'].intersects([]) && !['sales'].intersects(null) && ![].intersects([])",
    "!['sales'].includes('') && !['sales'].includes(null) && ![].includes([]) && [null].includes(null)",
    "HAS_USER_ATTR('partners') && 'p-2,x'.split(',').intersects(USER.partners.split(','))",
    "[[USER.partners]].includes('p-2') && [['a|b','|'],['c']].length == 2",
    "[[\"a|b\",'|']].length == 2 && [[TAG._type]].intersects([[REQ.user, ',']]) == false",
    "[['a','b']].length == 1 && [[1,2],[3]][0].length == 2 && [[]][0].length == 0",
    '[[USER["partners"]]].length == 2',
    "parseInt('12px') == 12 && parseFloat('1.5x') == 1.5 && Number('7') == 7 && String(7) === '7'",
    "Boolean('x') && !(parseInt('x') == parseInt('x'))",
    # macros of tests
    "HAS_TAG('PII') && !HAS_TAG('X') && HAS_ANY_TAG && !HAS_NO_TAG",
    "HAS_USER_ATTR('state') && !HAS_USER_ATTR('x') && HAS_USER_ATTR('_name')",
    "HAS_UG_ATTR('dept') && !HAS_UG_ATTR('x') && HAS_TAG_ATTR('attr1') && !HAS_TAG_ATTR('x')",
    "IS_IN_GROUP('test-group1') && !IS_IN_GROUP('x') && IS_IN_ANY_GROUP && !IS_NOT_IN_ANY_GROUP",
    "IS_IN_ROLE('test-role1') && !IS_IN_ROLE('x') && IS_IN_ANY_ROLE && !IS_NOT_IN_ANY_ROLE",
    # methods of ctx
    "ctx.getUser() == 'test-user' && ctx.user == 'test-user' && ctx.getUserGroups().contains('test-group1')",
    "ctx.userRoles.length == 2 && ctx.getClientIPAddress() == '10.20.1.2' && ctx.getAction() == 'query'",
    "ctx.getResource() == 'db1/tbl1/col1' && ctx.sessionId == 's-1' && ctx.getRequestData() == 'SELECT 1'",
    "ctx.getRequestContextAttribute('country') == 'US' && ctx.getRequestContextAttribute('x') == null",
    "ctx.getRequestContextAttribute('cities').includes('y')",
    "!ctx.isAccessTypeAny() && !ctx.isAccessTypeDelegatedAdmin()",
    "ctx.getCurrentTagType() == 'PII' && ctx.getAllTagTypes().includes('PCI')",
    "ctx.getAttributeValue('attr1') == 'PII_value' && ctx.getAttributeValue('PCI', 'attr1') == 'PCI_value'",
    "ctx.getAttributeValue('PCI', 'x') == null && ctx.getAttributeValue('X', 'x') == null",
    "ctx.getTagAttributes('PII').get('level') == 3 && ctx.getAttributeNames('PCI').includes('attr1')",
    "ctx.getAttributeValueForAllMatchingTags('PII', 'attr1').length == 1",
    "ctx.getAttributeValueForAllMatchingTags('PII', null) == null",
    "ctx.hasTag('PII') && ctx.isInGroup('test-group2') && ctx.ugNamesCsv() == 'test-group1,test-group2'",
    # time
    "ctx.isAccessedAfter('expiry') && !ctx.isAccessedBefore('expiry')",
    "ctx.isAccessedAfter('nothing') && !ctx.isAccessedBefore('nothing')",
    "ctx.isAccessedAfter('PII', 'expiry') && ctx.isAccessedAfter('X', 'expiry')",
    "ctx.getTagAttributeAsDate('PII', 'expiry').getTime() < ctx.getAccessTime().getTime()",
    "ctx.getAsDate('2026-06-15T12:00:00.000Z').getTime() == ctx.accessTime.getTime()",
    "ctx.getAsDate('2026/06/16').after(ctx.accessTime) && ctx.getAsDate('soon') == null",
    "IS_ACCESS_TIME_AFTER('2026/06/15') && !IS_ACCESS_TIME_AFTER('2026/06/15 12:00')",
    "IS_ACCESS_TIME_AFTER('2026/06/15 11:59:59') && IS_ACCESS_TIME_BEFORE('2026/06/15 12:00:01')",
    "!IS_ACCESS_TIME_BEFORE('2026/06/15 12:00') && IS_ACCESS_TIME_BEFORE('2100/01/01', 'GMT')",
    "IS_ACCESS_TIME_BETWEEN('2026/06/15 12:00', '2026/06/15 13:00')",
    "!IS_ACCESS_TIME_BETWEEN('2026/06/15 11:00', '2026/06/15 12:00')",
    "IS_ACCESS_TIME_BETWEEN('2026/06/15 14:00', '2026/06/15 15:00', 'Europe/Berlin')",
    # statements
    "result = USER.state == 'CA';",
    "ctx.result = true",
    "ctx.setResult(true)",
    "if ( ctx.isAccessedAfter('expiry') ) ctx.result = true;",
    "if (USER.state == 'NY') { result = false } else { result = true }",
    "if (false) result = false; else if (true) { result = true; }",
    "var a = USER.state; var b = 'CA'; a == b",
    "ctx.result = true; var unused = 1;",
    "result = false; if (USER.state == 'CA') result = true",
    "var wanted = ['CA', 'NY'];\nwanted.includes(USER.state);\n",
]


@pytest.mark.parametrize("script", TRUE)
def test_what_holds(script: str) -> None:
    assert holds(script) is True


@pytest.mark.parametrize(
    "script",
    [
        "false",
        "ctx.result = false",
        "if (USER.state == 'NY') ctx.result = true;",
        "USER.state",  # not a boolean, and nothing was assigned
        "'true'",
        "null",
        "1",
        "USER",
        "ctx.user == 'x' || TAG.level > 3",
        "var a = true",
        ";",
        "{}",
        "USER.nothing == 'x'",
    ],
)
def test_what_does_not_hold(script: str) -> None:
    assert holds(script) is False


@pytest.mark.parametrize(
    "script",
    [
        "USER.nothing.startsWith('x')",
        "USER.nothing.more",
        "null.length",
        "TAGS.X.attr1 == 'x'",
        "UG['x'].dept == 'y'",
        "(1).includes(1)",
        "'a'.intersects(['a'])",
        "['a'].intersects('a')",
        "USER + 'x'",
        "USER == 'x'",
        "USER.many == 'a'",
        "USER.many != 'a'",
        "USER.many > 'a'",
        "'a' === USER.many",
        "!USER.many",
        "USER.many + 'x'",
        "ctx.getRequestContextAttribute('cities') == 'x'",
        "IS_ACCESS_TIME_AFTER(USER.state)",
        "IS_ACCESS_TIME_AFTER('2026/06/15', USER.state)",
        "ctx.accessTime + 1",
        "'x'.join(',')",
        "Object.keys('x')",
        "tagAttr.split(',')",
    ],
)
def test_what_nobody_can_tell(script: str) -> None:
    assert holds(script) is None
    with pytest.raises(Indeterminate):
        value(script)


def test_several_values_are_a_list_and_nothing_else() -> None:
    assert holds("USER.many.includes('b') && USER.many.length == 2 && USER.many.intersects(['a'])")
    assert holds("USER.many.split(',').includes('a') && [[USER.many]].includes('a') && USER.many != null")
    assert holds("USER.many.join('|') == 'a|b' && GET_USER_ATTR('many') == 'a,b'")


def test_without_tags_groups_and_time() -> None:
    assert holds("HAS_NO_TAG && IS_NOT_IN_ANY_GROUP && IS_NOT_IN_ANY_ROLE", NOBODY)
    assert holds("TAG.level == null && TAGNAMES.length == 0 && tag == null && tagAttr.x == null", NOBODY)
    assert holds("REQ.clientIPAddress == null && REQ.action == null && USER._name == 'nobody'", NOBODY)
    assert holds("tag.getType() == 'PII'", NOBODY) is None
    assert holds("IS_ACCESS_TIME_AFTER('2020/01/01')", NOBODY) is None
    assert holds("ctx.isAccessedAfter('expiry')", NOBODY) is True
    assert holds("REQ.accessTime > 0", NOBODY) is None


LISTS = [
    ("UG_NAMES_CSV", "test-group1,test-group2"),
    ("UR_NAMES_CSV", "test-role1,test-role2"),
    ("TAG_NAMES_CSV", "PCI,PII"),
    ("USER_ATTR_NAMES_CSV", "dept,many,partners,state"),
    ("UG_ATTR_NAMES_CSV", "dept,site"),
    ("TAG_ATTR_NAMES_CSV", "attr1,expiry,level"),
    ("UG_NAMES_Q_CSV", "'test-group1','test-group2'"),
    ("TAG_NAMES_Q_CSV", "'PCI','PII'"),
    ("UG_ATTR_NAMES_Q_CSV", "'dept','site'"),
    ("GET_UG_ATTR_CSV('dept')", "ENGG,PROD"),
    ("GET_UG_ATTR_Q_CSV('site')", "'10','20'"),
    ("GET_TAG_ATTR_CSV('attr1')", "PCI_value,PII_value"),
    ("GET_TAG_ATTR_Q_CSV('attr1')", "'PCI_value','PII_value'"),
    ("GET_TAG_NAMES()", "PCI,PII"),
    ("GET_TAG_NAMES(null)", "PCI,PII"),
    ("GET_TAG_NAMES(null, '|')", "PCI|PII"),
    ("GET_TAG_NAMES(null, null)", "PCIPII"),
    ("GET_TAG_NAMES_Q()", "'PCI','PII'"),
    ("GET_TAG_NAMES_Q(null, '|')", "'PCI'|'PII'"),
    ("GET_TAG_NAMES_Q(null, null)", "'PCI''PII'"),
    ("GET_TAG_NAMES_Q(null, '|', null)", "PCI|PII"),
    ("GET_TAG_NAMES_Q(null, ',', '{', '}')", "{PCI},{PII}"),
    ("GET_TAG_ATTR('attr1', null, '|')", "PCI_value|PII_value"),
    ("GET_TAG_ATTR_Q('attr1', null, ',', '{', '}')", "{PCI_value},{PII_value}"),
    ("GET_UG_NAMES(null, '|')", "test-group1|test-group2"),
    ("GET_UG_ATTR_NAMES()", "dept,site"),
    ("GET_UG_ATTR('site', null, '')", "1020"),
    ("GET_UG_ATTR_Q('dept', null, ',', null)", "ENGG,PROD"),
    ("GET_UR_NAMES_Q()", "'test-role1','test-role2'"),
    ("GET_USER_ATTR_NAMES(null, '|')", "dept|many|partners|state"),
    ("GET_USER_ATTR('state')", "CA"),
    ("GET_USER_ATTR_Q('state')", "'CA'"),
    ("GET_USER_ATTR_Q('state', null, ',', '{', '}')", "{CA}"),
    ("GET_USER_ATTR_Q('many')", "'a','b'"),
    ("GET_USER_ATTR('nothing')", ""),
    ("GET_USER_ATTR('nothing', 'empty')", "empty"),
    ("GET_USER_ATTR('nothing', 'empty', null)", "empty"),
    ("GET_USER_ATTR_Q('nothing')", ""),
    ("GET_USER_ATTR_Q('nothing', 'empty', '|')", "'empty'"),
    ("GET_USER_ATTR_Q('nothing', 'empty', ',', null)", "empty"),
    ("GET_USER_ATTR_Q('nothing', 'empty', ',', '{', '}')", "{empty}"),
    ("GET_TAG_ATTR('nothing', 7)", "7"),
    ("GET_UG_ATTR_Q('nothing', null)", ""),
]


@pytest.mark.parametrize(("script", "expected"), LISTS)
def test_lists_as_text(script: str, expected: str) -> None:
    assert value(script) == expected


REFUSED = [
    ("", "a script is empty"),
    ("  \n", "a script is empty"),
    ("foo", "`foo` is not a name that scripts know"),
    ("java.lang.Runtime.getRuntime().exec('x')", "is not a name that scripts know"),
    ("new Date()", "`new Date()` is not a name"),
    ("this.context", "`this.context` is not a name"),
    ("load('x')", "is not a name"),
    ("eval('1')", "is not a name"),
    ("engine.eval('x')", "is not a name"),
    ("importPackage(java.util); true", "is not a name"),
    ("ctx.evil()", "`.evil()` is not a method of `ctx`"),
    ("ctx.getClass()", "is not a method of `ctx`"),
    ("ctx['user']", "needs `.` and a method"),
    ("ctx", "needs `.` and a method"),
    ("ctx.nothing", "is not a property of `ctx`"),
    ("REQ.typo == 1", "is not a field of `REQ`; it has `user`"),
    ("USER.state.match('x')", "`match('x')` is not a method"),
    ("USER.state.replace('a', 'b')", "is not a method"),
    ("USER.constructor('x')", "is not a method"),
    ("/x/.test('x')", "`/x/.test('x')` is not understood"),
    ("1 * 2", "`* 2` is not understood"),
    ("1 / 2", "`/ 2` is not understood"),
    ("1 & 2", "is not understood"),
    ("a => a", "`a => a` assigns to what is not a variable"),
    ("`x`", "is not understood"),
    ("'x", "`'x` is not understood"),
    ("'x\ny'", "is not understood"),
    ("1e5", "is not understood"),
    ("1.", "is not understood"),
    ("1 2", "`2` does not belong to the expression before it"),
    ("true true", "does not belong"),
    ("(1", "the end stands where `)` is expected"),
    ("[1", "the end stands where `,` is expected"),
    ("1 +", "the end where a value is expected"),
    ("== 1", "`== 1` where a value is expected"),
    ("USER.", "where a name is expected"),
    ("USER.1", "`1` where a name is expected"),
    ("x = 1", "assigns to what is not a variable of this script"),
    ("USER = 1", "assigns to what is not a variable"),
    ("USER.state = 'x'", "`= 'x'` does not belong"),
    ("var USER = 1", "cannot be a variable"),
    ("var ctx = 1", "cannot be a variable"),
    ("var x", "stands where `=` is expected"),
    ("function f() { return 1 }", "is not a name"),
    ("while (true) {}", "is not a name"),
    ("for (;;) {}", "is not a name"),
    ("return true", "is not a name"),
    ("if true", "is not a name"),
    ("if (true) {", "stands where `}` is expected"),
    ("HAS_TAG", "which needs brackets"),
    ("HAS_TAG()", "`HAS_TAG` takes 1 arguments, not 0"),
    ("HAS_ANY_TAG()", "which takes no brackets"),
    ("GET_USER_ATTR()", "`GET_USER_ATTR` takes 1 to 5 arguments, not 0"),
    ("UG_NAMES_CSV()", "takes no brackets"),
    ("'a'.includes()", "`includes` takes 1 arguments, not 0"),
    ("('a')('b')", "calls what is not a function here"),
    ("IS_ACCESS_TIME_AFTER('soon')", "`soon` is not a time"),
    ("IS_ACCESS_TIME_AFTER('2026/01/01', 'Nowhere')", "`Nowhere` is not a time zone"),
    ("IS_ACCESS_TIME_BETWEEN('2026/01/01', '2026/02/30')", "`2026/02/30` is not a time"),
    ("x" * 9000, "longer than 8192 characters"),
    ("1," * 2500, "more than 2000 parts"),
    ("(" * 40 + "1" + ")" * 40, "nested more than 32 levels deep"),
    ("[" * 100_000, "longer than"),
    ("[" * 1900, "nested more than 32 levels deep"),
    ("!" * 1900 + "1", "nested more than 32 levels deep"),
    ("-" * 1900 + "1", "nested more than 32 levels deep"),
    ("true ? " * 500 + "1", "nested more than 32 levels deep"),
    ("{" * 1900, "nested more than 32 levels deep"),
    ("if (1) " * 300 + "1", "nested more than 32 levels deep"),
    ("1" + " - 1" * 900, "more than 64 operations within each other"),
    ("USER" + ".x" * 900, "more than 64 operations within each other"),
]


@pytest.mark.parametrize(("script", "expected"), REFUSED, ids=lambda v: v[:40])
def test_what_is_refused_names_the_offending_part(script: str, expected: str) -> None:
    with pytest.raises(Untranslatable) as refusal:
        parse(script)
    assert expected in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_long_chains_of_and_and_or_are_fine() -> None:
    assert holds(" && ".join(["true"] * 400))
    assert holds(" || ".join(["false"] * 400) + " || true")


def test_no_text_and_no_list_grows_without_end() -> None:
    doubling = "var a = '" + "x" * 1000 + "'; " + "a = a + a; " * 12
    assert holds(doubling) is None
    assert holds("var a = '" + "x" * 5000 + "'; a.split('').length == 1") is None
    assert holds("'" + "x" * 2000 + "'.split('x').length == 2001")


FACETS = [
    ("USER.state == 'CA'", set()),
    ("RES.table == 't' && UG['g'].x", set()),
    ("REQ.action == 'x'", {"action"}),
    ("REQ['clientIPAddress']", {"client_ip"}),
    ("REQ.clusterName + REQ.clusterType", {"cluster", "cluster_type"}),
    ("REQ.accessTime > 0", {"time"}),
    ("IS_ACCESS_TIME_AFTER('2026/01/01')", {"time"}),
    ("ctx.isAccessedAfter('x')", {"time", "tags"}),
    ("ctx.getSessionId()", {"session_id"}),
    ("ctx.clientIPAddress", {"client_ip"}),
    ("ctx.getRequestContextAttribute('x')", {"attributes"}),
    ("HAS_TAG('x') || TAGNAMES.length", {"tags"}),
    ("URNAMES.length || IS_IN_ROLE('x')", {"roles"}),
    ("if (false) { REQ.remoteIPAddress }", {"remote_ip"}),
    ("HAS_NO_TAG", {"tags"}),
]


@pytest.mark.parametrize(("script", "expected"), FACETS)
def test_what_of_the_context_a_script_reads(script: str, expected: set[str]) -> None:
    assert parse(script).context_dependencies == expected


def test_a_script_over_the_whole_request_reads_all_of_it() -> None:
    assert parse("Object.keys(REQ).length > 0").context_dependencies >= {
        "time",
        "client_ip",
        "action",
        "request_data",
        "roles",
    }


def test_every_macro_and_method_has_an_answer() -> None:
    names = [*CALLED, *(f"ctx.{name}" for name in CONTEXT)]
    functions = [*CALLED.values(), *CONTEXT.values()]
    for name, function in zip(names, functions, strict=True):
        for count in range(function.fewest, function.most + 1):
            for argument in ("'x'", "null"):
                if "TIME" not in name.upper() or argument == "null":
                    script = f"{name}({', '.join([argument] * count)})"
                    assert parse(script).holds(FACTS) in (True, False, None)
    for name in BARE:
        assert parse(name).holds(FACTS) in (True, False)


def test_undefined_shows_itself() -> None:
    assert value("undefined") is UNDEFINED
    assert repr(UNDEFINED) == "undefined"


WORDS = [
    *("USER", "TAGS", "REQ", "ctx", ".state", ".length", "['PII']", "(", ")", "[", "]", "{", "}", ",", ";"),
    *("==", "===", "!=", "<", ">=", "&&", "||", "!", "+", "-", "?", ":", "=", "if", "else", "var", "result"),
    *("'a'", "'1'", "1", "0.5", "null", "undefined", "true", "\n", " ", "x", ".split(',')", ".includes('a')"),
    *("HAS_TAG('PII')", "UG_NAMES_CSV", ".intersects(['a'])", "GET_USER_ATTR_Q('many')", "[[", "]]", ".many"),
    *("Number(", "J(", ".getTime()", "ctx.accessTime", "tag", "ctx.result", "//", "/*", "*/", "\\", "\u2028"),
]


@settings(max_examples=tries(600), deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_words_are_refused_or_have_an_answer(text: str) -> None:
    try:
        script = parse(text)
    except Untranslatable:
        return
    for facts in (FACTS, NOBODY):
        assert script.holds(facts) in (True, False, None)


@settings(max_examples=tries(300), deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_refused_or_has_an_answer(text: str) -> None:
    try:
        script = parse(text)
    except Untranslatable:
        return
    assert script.holds(FACTS) in (True, False, None)


@settings(max_examples=tries(300), deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_values_are_compared_as_they_are(one: str, two: str) -> None:
    """Attributes are data: no value can end a literal, name a variable or call a function."""
    facts = Facts(user=one, user_attributes={"x": (two,)})
    assert parse("USER._name == USER.x").holds(facts) is (one == two)
    assert parse("USER.x + '' === GET_USER_ATTR('x')").holds(facts) is True
    assert parse("(USER.x + '|' + USER._name).endsWith('|' + USER._name)").holds(facts) is True
