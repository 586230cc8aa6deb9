package report

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// browser finds Chromium; without one the test is skipped.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if text, err := exec.Command(path, "--version").CombinedOutput(); err != nil {
			t.Skipf("%s does not start here: %v %s", path, err, text)
		}
		return path
	}
	t.Skip("no chromium on the PATH (Debian: apt-get install chromium)")
	return ""
}

// driver is put at the end of a page: it steps as a reader would and writes down what it sees.
const driver = `<script>
window.addEventListener("load", () => {
	const out = [];
	const errors = [];
	const stage = document.querySelector(".stage");
	const key = (k, shift) => stage.dispatchEvent(new KeyboardEvent("keydown",
		{ key: k, shiftKey: !!shift, bubbles: true, cancelable: true }));
	const see = what => {
		const now = document.querySelector(".program li.now");
		out.push(what + " | " + stage.querySelector(".controls .mono").textContent + " | " +
			stage.querySelector(".point").textContent + " | " +
			stage.querySelectorAll(".cell.live").length + " live | " +
			stage.querySelectorAll(".arrow").length + " arrows | " +
			(now ? now.textContent : "-") + " | " +
			stage.querySelectorAll(".changed").length + " changed");
	};
	try {
		see("start");
		key("Home"); see("Home");
		key("ArrowRight"); see("Right");
		key("ArrowRight", true); see("Difference");
		key("End"); see("End");
		key("f"); see("Fault");
		stage.querySelector("input").value = 5;
		stage.querySelector("input").dispatchEvent(new Event("input"));
		see("Slider");
		document.body.dispatchEvent(new KeyboardEvent("keydown",
			{ key: "ArrowRight", bubbles: true, cancelable: true }));
		see("Body");
		key("End");
		const bytes = stage.querySelector(".bytes");
		out.push("Bytes | " + (bytes ? bytes.querySelectorAll(".wrong").length + " wrong of " +
			bytes.querySelectorAll("span").length : "none"));
		const from = performance.now();
		let n = 0;
		key("Home");
		while (n < 200) { key(n % 45 < 44 ? "ArrowRight" : "Home"); n++; }
		stage.getBoundingClientRect();
		out.push("steps " + ((performance.now() - from) / n).toFixed(2) + " ms each");
	} catch (e) { errors.push(String(e)); }
	const pre = document.createElement("pre");
	pre.id = "seen";
	pre.textContent = out.concat(errors.map(e => "ERROR " + e)).join("\n");
	document.body.append(pre);
});
</script>`

// drive loads a page in Chromium and returns what the driver saw, and what the console said.
func drive(t *testing.T, page string) (seen, console string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	page = strings.Replace(page, "</body>", driver+"</body>", 1)
	if err := os.WriteFile(file, []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser(t), "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=10000", "--enable-logging=stderr",
		"--dump-dom", "file://"+file)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, errs.String())
	}
	for l := range strings.Lines(errs.String()) {
		if strings.Contains(l, "CONSOLE") {
			console += l
		}
	}
	m := regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatalf("the driver did not run:\n%s\n%s", console, out.String()[:min(2000, out.Len())])
	}
	return strings.ReplaceAll(m[1], "&gt;", ">"), console
}

// TestBrowser: in a browser the page begins at the first fault, each key and the slider go where
// they say, the picture changes with the steps, and the console is silent.
func TestBrowser(t *testing.T) {
	browser(t)
	r, _ := run(t)
	seen, console := drive(t, html(t, r))
	if console != "" {
		t.Errorf("the console says\n%s", console)
	}
	lines := strings.Split(seen, "\n")
	want := []string{
		`^start \| 41 of 46 \| cpu0 on CPU 0, in cpu0 a = alloc c: before cmpxchg ` +
			`cpu_slab.freelist 1✖ freelist leaves its slab.*\| 2 live \| 62 arrows ` +
			`\| cpu0 a = alloc c `,
		`^Home \| 1 of 46 \| .*before load cpu_slab.freelist 1 \| 0 live \| 0 arrows`,
		`^Right \| 2 of 46 `,
		// A page is taken.
		`^Difference \| 11 of 46 .*before unlock zone.lock 1 .*\| 0 live .*\| 1 changed`,
		`^End \| 46 of 46 `,
		`^Fault \| 41 of 46 \| .*freelist leaves its slab`,
		`^Slider \| 6 of 46 `,
		`^Body \| 7 of 46 `, // a key that nothing has
		`^Bytes \| 32 wrong of 32$`, // the object has two owners, and the second wrote last
		`^steps [0-9.]+ ms each`,
	}
	if len(lines) != len(want) {
		t.Fatalf("seen\n%s", seen)
	}
	for i := range want {
		if !regexp.MustCompile(want[i]).MatchString(lines[i]) {
			t.Errorf("seen %q, want %s", lines[i], want[i])
		}
	}
	t.Log(lines[len(lines)-1])
}
