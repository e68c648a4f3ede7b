// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-CAZUqYsV.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "c07036683e50b4f2",
        plain: include_bytes!("assets/index-CAZUqYsV.js"),
        gzip: include_bytes!("assets/index-CAZUqYsV.js.gz"),
        brotli: include_bytes!("assets/index-CAZUqYsV.js.br"),
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
        tag: "eb3d499e08e79172",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
