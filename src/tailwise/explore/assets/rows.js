// Parts of the page are drawn anew while one works with them. Their buttons have ids that say what they stand for, with
// the step ("place"): a press is passed on from here, so that it is not lost with the button.
(() => {
  const rowButton = (element) => element?.closest?.("button[id^='{']");
  let count = 0, held = null;
  document.addEventListener("click", (event) => {
    const button = rowButton(event.target);
    if (button) dash_clientside.set_props("pressed", { data: { ...JSON.parse(button.id), count: ++count } });
  });
  document.addEventListener("pointerdown", (event) => { held = rowButton(event.target); });
  document.addEventListener("pointerup", (event) => { // drawn anew between down and up: the browser makes no click
    const now = rowButton(document.elementFromPoint(event.clientX, event.clientY));
    if (held && !held.isConnected && now?.id === held.id) now.click();
    held = null;
  });

  // Dash puts the caret back after a change of an input; a slider has none, which would be an error.
  const select = HTMLInputElement.prototype.setSelectionRange;
  HTMLInputElement.prototype.setSelectionRange = function (...ends) {
    if (this.type !== "range") select.apply(this, ends);
  };

  // The focus goes back to the control that stands in the same place; the same action of the next step will do.
  const bare = (id) => id.replace(/"place":\d+/, "");
  let last = "";
  document.addEventListener("focusin", (event) => { last = event.target.id; });
  document.addEventListener("pointerdown", (event) => { if (!event.target.id) last = ""; });
  new MutationObserver(() => {
    if (!last || document.activeElement !== document.body) return;
    const same = document.getElementById(last)
      ?? [...document.querySelectorAll("button[id]")].find((other) => bare(other.id) === bare(last));
    same?.focus({ preventScroll: true });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
