// Runs statements with the npm hive-driver, as its README shows it, and prints one JSON array of outcomes.
// Standard input: {"host", "port", "user", "password", "statements": [...]}
const hive = require('hive-driver');
const { TCLIService, TCLIService_types } = hive.thrift;

async function outcome(session, utils, statement) {
  try {
    const operation = await session.executeStatement(statement, { runAsync: true });
    await utils.waitUntilReady(operation, false, () => {});
    await utils.fetchAll(operation);
    const rows = utils.getResult(operation).getValue();
    await operation.close();
    return { rows };
  } catch (error) {
    return { error: String((error.response && error.response.errorMessage) || error.message || error) };
  }
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const { host, port, user, password, statements } = JSON.parse(Buffer.concat(chunks).toString());
  const client = new hive.HiveClient(TCLIService, TCLIService_types);
  const utils = new hive.HiveUtils(TCLIService_types);
  client.on('error', (error) => console.error('client:', error.message));
  await client.connect(
    { host, port, options: {} },
    new hive.connections.TcpConnection(),
    new hive.auth.PlainTcpAuthentication({ username: user, password }),
  );
  const session = await client.openSession({
    client_protocol: TCLIService_types.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V10,
  });
  const outcomes = [];
  for (const statement of statements) outcomes.push(await outcome(session, utils, statement));
  await session.close();
  client.close();
  console.log(JSON.stringify(outcomes, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
}

main().catch((error) => {
  console.error(String(error && error.message ? error.message : error));
  process.exit(1);
});
