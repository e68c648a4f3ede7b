// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Kix_UCB2.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "555c8ccf05a8a27a",
        plain: include_bytes!("assets/index-Kix_UCB2.js"),
        gzip: include_bytes!("assets/index-Kix_UCB2.js.gz"),
        brotli: include_bytes!("assets/index-Kix_UCB2.js.br"),
    },
    Asset {
        name: "assets/style-hjwOkrFd.css",
        content_type: "text/css; charset=utf-8",
        tag: "bb5e83f73b718779",
        plain: include_bytes!("assets/style-hjwOkrFd.css"),
        gzip: include_bytes!("assets/style-hjwOkrFd.css.gz"),
        brotli: include_bytes!("assets/style-hjwOkrFd.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "c9d4b682602ac826",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
