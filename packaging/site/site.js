"use strict";

// The sections of the languages become tabs. The choice holds for all pages. Without this script they follow each other.
const LANGUAGES = ["C", "C++", "Go", "Python", "Java"];
const titles = [...document.querySelectorAll("main h3")].filter((title) => LANGUAGES.includes(title.textContent));
if (titles.length === LANGUAGES.length) {
  const tabs = document.createElement("div");
  tabs.className = "tabs";
  tabs.setAttribute("role", "tablist");
  titles[0].before(tabs);
  const panels = titles.map((title) => {
    const panel = document.createElement("div");
    panel.setAttribute("role", "tabpanel");
    title.before(panel);
    do panel.append(panel.nextSibling);
    while (panel.nextSibling && !/^H[123]$/.test(panel.nextSibling.nodeName));
    return panel;
  });
  const show = (language) => {
    panels.forEach((panel, i) => (panel.hidden = LANGUAGES[i] !== language));
    [...tabs.children].forEach((tab) => tab.setAttribute("aria-selected", String(tab.textContent === language)));
  };
  for (const language of LANGUAGES) {
    const tab = document.createElement("button");
    tab.setAttribute("role", "tab");
    tab.textContent = language;
    tab.onclick = () => {
      localStorage.setItem("language", language);
      show(language);
    };
    tabs.append(tab);
  }
  const linked = () => LANGUAGES[titles.findIndex((title) => "#" + title.id === location.hash)];
  const chosen = localStorage.getItem("language");
  show(linked() ?? (LANGUAGES.includes(chosen) ? chosen : LANGUAGES[0]));
  addEventListener("hashchange", () => linked() && show(linked()));
}

// The versions that the host keeps, to choose from. A page that is opened as a file cannot read their list.
if (location.protocol.startsWith("http")) {
  const top = new URL(path_to_root + "../", location.href);
  fetch(new URL("versions.json", top))
    .then((answer) => answer.json())
    .then((versions) => {
      const choice = document.createElement("select");
      choice.className = "versions";
      choice.setAttribute("aria-label", "Version");
      choice.append(...versions.map((version) => new Option(version)));
      choice.value = versions.find((version) => location.pathname.includes(`/${version}/`));
      choice.onchange = () => (location.href = new URL(choice.value + "/", top));
      document.querySelector(".left-buttons").append(choice);
    });
}
