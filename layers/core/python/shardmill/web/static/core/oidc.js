// Sign in with an OIDC issuer: authorization code with PKCE. The token stays in memory.

const KEY = "shardmill.oidc";

/** How the issuer signs in; null if the deployment has none, and the page asks for a token. */
export async function findIssuer() {
  try {
    const answer = await fetch("/v1/sign-in", { credentials: "omit" });
    return answer.ok ? (await answer.json()).oidc : null;
  } catch {
    return null;
  }
}

/** Leave for the issuer; it returns to this page with a code. */
export async function goToIssuer(issuer) {
  const verifier = random();
  const state = random();
  sessionStorage.setItem(KEY, JSON.stringify({ verifier, state, hash: location.hash }));
  const challenge = encode(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  const address = new URL(issuer.authorizationEndpoint);
  const asked = { response_type: "code", client_id: issuer.clientId, redirect_uri: home(), scope: issuer.scope, state, code_challenge: challenge, code_challenge_method: "S256" };
  for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
  location.assign(address);
}

/** After the return: exchange the code for a token. Returns the token, or an empty text if there is no code. */
export async function tokenFromCode() {
  const given = new URLSearchParams(location.search);
  if (!given.has("code") && !given.has("error")) return "";
  const begun = JSON.parse(sessionStorage.getItem(KEY) || "null");
  sessionStorage.removeItem(KEY);
  history.replaceState(null, "", location.pathname + (begun?.hash || location.hash));
  if (!begun || given.get("state") !== begun.state) throw new Error("The sign-in was not begun in this tab. Try again.");
  if (given.has("error")) throw new Error(`The issuer did not sign you in: ${given.get("error_description") || given.get("error")}`);
  const issuer = await findIssuer();
  if (!issuer) throw new Error("The issuer does not answer. Try again in a moment.");
  const body = new URLSearchParams({ grant_type: "authorization_code", code: given.get("code"), redirect_uri: home(), client_id: issuer.clientId, code_verifier: begun.verifier });
  const answer = await fetch(issuer.tokenEndpoint, { method: "POST", body, credentials: "omit" });
  if (!answer.ok) throw new Error(`The issuer did not accept the code (${answer.status}). Try again.`);
  const issued = await answer.json();
  // Issuers whose access tokens are not JWTs have one in the id token.
  return issued.access_token?.split(".").length === 3 ? issued.access_token : issued.id_token || "";
}

const home = () => location.origin + location.pathname;
const random = () => encode(crypto.getRandomValues(new Uint8Array(32)));

function encode(bytes) {
  return btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
