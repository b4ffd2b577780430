"use strict";
const json = document.getElementById("corun-profile").textContent;
document.getElementById("download").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([json], { type: "application/json" }));
  link.download = "corun-profile.json";
  link.click();
  URL.revokeObjectURL(link.href);
});
document.getElementById("copy").addEventListener("click", (event) => {
  const area = document.createElement("textarea");
  area.value = json;
  document.body.append(area);
  area.select();
  event.target.textContent = document.execCommand("copy") ? "Copied" : "Copying is not allowed here";
  area.remove();
});
