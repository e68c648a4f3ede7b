import { runTests, SERVER } from "../../test-page.mjs";

runTests(import.meta.url, "dashboard", SERVER);
