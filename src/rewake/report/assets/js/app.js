// Where the page begins: as a file it shows its session; live it shows the list, or the session in the
// address. The token comes in the address's fragment, which no request carries, and is taken out of it.

import { FileSource, LiveSource } from "./data.js";
import { h } from "./dom.js";
import { HomePage } from "./home.js";
import { SessionPage } from "./session.js";

const TOKEN = "rewake-token";

function parameters() {
  return new URLSearchParams(location.hash.slice(1));
}

function takeToken() {
  const given = parameters().get("token");
  if (given) {
    sessionStorage.setItem(TOKEN, given);
    const rest = parameters();
    rest.delete("token");
    history.replaceState(null, "", `#${rest}`);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

function fail(app, error) {
  const isRefused = error.message === "wrong token";
  app.replaceChildren(h("main", { class: "home" }, h("h1", {}, isRefused ? "This link is not valid any more" : "This can't be shown"), h("p", {}, isRefused ? "Open the link that rewake view printed when it was started." : error.message)));
}

async function begin() {
  const app = document.getElementById("app");
  try {
    if (document.body.dataset.live !== "1") {
      await new SessionPage(new FileSource()).start(app);
      return;
    }
    const token = takeToken();
    const linkTo = (id, message) => `#${new URLSearchParams({ token, s: id, ...(message ? { m: message } : {}) })}`;
    addEventListener("hashchange", () => {
      takeToken();
      location.reload();
    });
    const id = parameters().get("s");
    if (id) await new SessionPage(new LiveSource(token, id), { homeLink: `#${new URLSearchParams({ token })}` }).start(app, parameters().get("m"));
    else await new HomePage(new LiveSource(token, null), linkTo).start(app);
  } catch (error) {
    fail(app, error);
    throw error;
  } finally {
    performance.mark("rewake-usable");
    document.body.dataset.ready = "1";
  }
}

begin();
