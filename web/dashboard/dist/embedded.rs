// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DsnVIcN-.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "e8c9567a5eac3023",
        plain: include_bytes!("assets/index-DsnVIcN-.js"),
        gzip: include_bytes!("assets/index-DsnVIcN-.js.gz"),
        brotli: include_bytes!("assets/index-DsnVIcN-.js.br"),
    },
    Asset {
        name: "assets/style-DoKEcsFw.css",
        content_type: "text/css; charset=utf-8",
        tag: "8647acaf6e9f7c5d",
        plain: include_bytes!("assets/style-DoKEcsFw.css"),
        gzip: include_bytes!("assets/style-DoKEcsFw.css.gz"),
        brotli: include_bytes!("assets/style-DoKEcsFw.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "7705473621b1e05b",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
