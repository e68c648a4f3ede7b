/** Streams for the self-test of decompressors. Written by wasm/samples. */

import type { Sample } from "./compression.js";

function message(i: number): string {
  const words = Array.from({ length: (i % 5) * 6 + 4 }, (_, k) => `word${(i * 7 + k * k) % 97}`).join(" ");
  const digits = String((i * 7919) % 100000).padStart(5, "0");
  const identity = `"id":"13027${digits}21793259","channel_id":"13027000002179325${i % 10}"`;
  return `{"t":"MESSAGE_CREATE","s":${i},"op":0,"d":{${identity},"content":"${words}","tts":false,"pinned":false}}`;
}

function sample(parts: readonly string[]): Sample {
  return {
    compressed: parts.map((part) => Uint8Array.from(atob(part), (character) => character.charCodeAt(0))),
    messages: parts.map((_, index) => message(index + 1)),
  };
}

export const zlibSample = (): Sample =>
  sample([
    "eJxMjs0KgzAQhF+lzDkHN6mNyU0k9NRL7V2kWipIIjXQg/juzY+H7mGGYT92doOHxs20bX01XXM39cOAYYUmBrdAFwwD9IYpKEgUXBZSkeIkleClCuzz3Vs7zt0fEecgKBLO+tHGoq/7DPIUtUpKlO2SjItkgic751TmncxkVYV73of/Xv28jgzLFMqHI+77DwAA//8=",
    "qsbpHyNc/jE0tTC2INo/Rhj+MTSB+MEUQlmgeMUAQllCvALhmUHkzCEqLaH6IMFiDBE0g/rWDDl4TEzx+x0AAAD//w==",
    "jJFBCsAgDATf5G5C9P8f62FyaBGLF2Ex4s7kzO4Tu1xZ1+ze2EVPsTHlBxqioHySirvJJKei8UBvLX57TD6YpNE6ebfo4LYa/5IeAAAA//8=",
    "jJNRCgAgCEPPpJni/S/WxxYMIupHGBbl27xDihukYVn5DSlOSIxEa7o3Hcww8fmEKvQaJ40XTEkUUSvwiQcaylOThBqkT9doiauH3DNaWY91WwAAAP//",
    "wh2apjhD09LU0pTo0DTFCE1jqM/NkHOWCYFYBwAAAP//",
    "wu1OM1zuNDE3NTQh2p1mGO40QSnFYLkAGonQXG6OUhBA5CyhsYffQwAAAAD//w==",
    "wu0hc1weMjU1MTYm2kPmmB5CKcSgKRbmE2hyMUHO3ShluzFKRjaH8CzNkAsAaOBYGOD3OgAAAP//",
    "wu11C1xeNzM2NjUi2usWGF43RSnDzAxQ/GyEnKegeRalEjBByZ4WUN0omRqi3gJiPrRQhRZvFpbIpQe0dDQ0wh9GAAAAAP//",
    "jJVBCgAgCMC+lBWG//9YgTsoIfWAkGZtNSOrGC05KfxmZBcjTQrT5JbF1cESe4m7Jmg1gpCRmugHzAf0FEoeElJAjmRCmdfiDi1uUh6fbQMAAP//",
    "wh2ahgY4gxPYSDIgOjgNMFtJBsjFMTRjmVvidygAAAD//w==",
    "wuNQnM05C3NDA4qacyiFmAVKwwVaiZsiFwRGsBIbGn/4fQQAAAD//w==",
    "wuMjnA06S1MDI0oadBYopZgFSnvEGLlKhjXyUMp2M5S8DG3gGpugFAHQZh2ByhUAAAD//w==",
    "wuN3nA06AyNLE0oadJYoxZglcisDmoGguQqWb1GqAXOULAptCpsYImdtWLsO2gA0QynjzFGKEGjBgD+QAAAAAP//",
    "pJexEQAgDAJXMncSs/9kNl+QQi1cAcJDLiIdB12Myp9BF4YxNW0AODRaXpjgq5gFrsIsL8X2BGUrSs4IKIBHegI/5P4RMmzUI2sbAAD//w==",
    "whOUOFtzhhbmFpS05iyQSmNorjIkEOMAAAAA//8=",
    "wuNMnI05IzNzA0oac4YoRRg0C0CbLcYobWtYKQArsKHRh99LAAAAAP//",
  ]);

export const zstdSample = (): Sample =>
  sample([
    "KLUv/QBYhAQAYggcHVCp6oCgAls+uu3hk7KP29IZF12LkfrIJ0xm5oQB0wRjN+NcI9QsCD405/XHsc0oWGAxtozdAz4yAjT4yOj82XG2XKWJ3UvicL0rFnNtl1vXVFuK7fmQucSHV8V35HX50PXPgLyCQHkDJEke4fx5KQ0AZWYDDQPB4DBoGAiCy1SmSbkLrIAEYGEphjID",
    "XAIA8DIxNTgzODIxNDUxODAzOTA2Mzc5NTE3ODYxODY0NRQAfxMoslwAgsEhaAxgA601hQI0BIKBaXDFaQiAQ2jsaLAGZgFACiBPbWMF",
    "FAMAtAJ7MzIzNzU3MzIxMjIyNTc0NjU3MDgyNDQ1Njg5MzUyODMxOTU0OTEzMzc0GgAoS2AgGBwGDQPB4DA0XFouAMHgMGgYCJxqBJgDl4Fp4Bo0wZsHgGBwGLQIZgZAD4CygCs=",
    "JAMAdAJ7NDMxNjc2NDg5NDM2NDc3OTEyMzEyNzU1OTkwMjY0MDgxMjcyNzcgIJBzUwdy08R5hnEHiyHq3IelIYA4miTYsOBfpJvRQMTGsOnW8FA0LOgyDQlZAuEktMMYT4A0yJYgBA==",
    "FAEAaHs1Mzk1OTU1MzUzNjQIAPmrSVeRADQMBAQzA6AHQFnAFQ==",
    "rAEAkHs2NDc1MTQ2NDI0NTU2NzEyNg4AVBOIvDBAOwbyC0BgBTEYGALGJZMzgBbBzADoAVAWcAU=",
    "HAIAuHs3NTU0MzM3OTU1Njc0MTM3OTYyNTgwEwB+IxBgBkaAi2BgzMURYHICaBdeuAAEgsHAEDAOmZwB2gMeA6AHQFnAFQ==",
    "hAIAqHs4NjMzNTI4NTY2NDU4ODg3ODkxMhcAJ0tgSNlFENkBIFCcnAOrnAA0BAJjF8dAZmAIGA7BfOK2yHBVZBAqMoBxYGDH5EPAfAFIAcgWIAQ=",
    "RAMAFAJ7OTcxMjcxOTY2Nzc5ODgyNDc2NjEzNTk0MjkzNjIxMDEdAHClSfNmoJgBi+YEoGEgUMWcA6ScAYwDA2M5nwCHoPHF+VkQyLAygIaBwF9yFjNnvqBhIBAMBgYxJh8HZgZAD4CygCs=",
    "FAEAYHsxMDc5MTkwMDA3OQcALCOQq3BDsswd8BgAvZRAsC1ACA==",
    "fAEAeHsxODcxMDkxNzg4NTk2MQwAVSOQ3+wCCIceeBj5nBkv4DFwBQwHPAZAD4Bigys=",
    "9AEAkHsyOTUwMjgyODQ4MTIzNjEzNRIAYOcG2oEEwDgwGBjkuTgnTM4BxoHBwBAwwCTguWRyBtAimBkAPQCKDa4=",
    "bAIAkHsxMDI5NDk5OTM3MTQ2NzQ0NxcAKEugAxkDtAOYz8nEuMo5wIDtQAJgHBgMDGJanCMmZ4B2u8WLrMIFooIDyAcGA4MIkIg6cLkFsAE=",
    "FAMAkHs0MTA4NjY0MjA4MjQ0ODY5NR0Ab6WJ8sqAVjIMrwxIgwyFN2DFnEGknOE0MIMSkQGMAwMjFB7DOGeAFhMWM9BamOyM5uzCPNCBX6AD5EEHQLhvgjO3eTAwMwB6ABQbXAE=",
    "7AAASHs1MTg3ODU1MQcA9atJVpEhsmwA8C4AKQCZDYQ=",
    "ZAEAaHs2MjY3MDQ2MTIzNTkMAGTmBmBc8yAJMNzX4GFgCBjOmHwE8C4AKQCZDYQ=",
  ]);
