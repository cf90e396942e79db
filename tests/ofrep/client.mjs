// Asks the server by OpenFeature's providers for JavaScript: for servers, and for pages, which ask for all flags at once.
// Prints what they say as JSON.
import * as server from "@openfeature/server-sdk";
import { OFREPProvider } from "@openfeature/ofrep-provider";
import * as web from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";

const baseUrl = process.env.OFREP;
const visitor = { targetingKey: "visitor-1", device: "phone" };

async function ask(client, context) {
  const details = {
    button: await client.getStringDetails("button", "none", context),
    limit: await client.getNumberDetails("limit", 0, context),
    offer: await client.getObjectDetails("offer", {}, context),
    none: await client.getStringDetails("none", "mine", context),
    mismatch: await client.getBooleanDetails("button", true, context),
  };
  const said = ({ value, variant, reason, errorCode, flagMetadata }) => ({ value, variant, reason, errorCode, flagMetadata });
  return Object.fromEntries(Object.entries(details).map(([name, detail]) => [name, said(detail)]));
}

// Pages first: they record nothing.
await web.OpenFeature.setContext(visitor);
await web.OpenFeature.setProviderAndWait(new OFREPWebProvider({ baseUrl, pollInterval: 0 }));
const page = await ask(web.OpenFeature.getClient());
const recorded = (await (await fetch(`${baseUrl}/report`)).json()).button.report.Decisions;
const shown = page.button.flagMetadata;
await fetch(`${baseUrl}/dpb/v1/track`, { method: "POST", body: JSON.stringify({ shown: [{ flag: "button", ...shown }] }) });

await server.OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl }));
const client = server.OpenFeature.getClient();
const said = await ask(client, visitor);
const { errorCode } = await client.getStringDetails("button", "none", {});
await fetch(`${baseUrl}/dpb/v1/track`, { method: "POST", body: JSON.stringify({ events: [{ id: shown.id, value: 1 }] }) });
console.log(JSON.stringify({ page, recorded, server: said, nobody: errorCode }));
process.exit();
