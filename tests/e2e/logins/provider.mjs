// The npm package oidc-provider with one client, for which PKCE is a must: any name logs in, with any password.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [port, callback, secret, modules] = process.argv.slice(2);
const found = createRequire(modules).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(found));

const provider = new Provider(`http://localhost:${port}`, {
  clients: [{ client_id: "sluice", client_secret: secret, redirect_uris: [callback] }],
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
  // The claims are in the ID token, not at another address.
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: `id of ${id}`, preferred_username: id, groups: ["analysts"] }),
  }),
});
provider.listen(Number(port), "localhost");
