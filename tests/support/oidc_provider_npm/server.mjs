// npm's oidc-provider, which is certified by the OpenID Foundation, with its defaults: prints its port.
// POST /control replaces the accounts: {"ann": {"preferred_username": "ann", "groups": ["watchers"]}}. Its own pages for
// development let anybody in who types the name of an account.
import http from "node:http";
import Provider from "oidc-provider";

const [clientId, clientSecret, redirectUri] = process.argv.slice(2);
let accounts = {};

const server = http.createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [redirectUri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    findAccount: (_, id) =>
      accounts[id] && { accountId: id, claims: () => ({ sub: id, ...accounts[id] }) },
  });
  const answer = provider.callback();
  server.on("request", async (request, response) => {
    if (request.url !== "/control") return answer(request, response);
    let body = "";
    for await (const piece of request) body += piece;
    accounts = JSON.parse(body);
    response.end("{}");
  });
  console.log(server.address().port);
});
