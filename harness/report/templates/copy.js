// Commands are copied, or at least selected where a browser lets no page write to the clipboard.
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    const copied = await navigator.clipboard?.writeText(code.textContent).then(() => true, () => false);
    if (!copied) getSelection().selectAllChildren(code);
    button.textContent = copied ? "Copied" : "Selected";
    say(copied ? "The command is copied." : "The command is selected; copy it with the keyboard.");
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}
