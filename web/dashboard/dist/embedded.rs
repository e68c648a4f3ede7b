// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Dzt_7gVy.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "5307ce150e305df9",
        plain: include_bytes!("assets/index-Dzt_7gVy.js"),
        gzip: include_bytes!("assets/index-Dzt_7gVy.js.gz"),
        brotli: include_bytes!("assets/index-Dzt_7gVy.js.br"),
    },
    Asset {
        name: "assets/style-DXT9ywa4.css",
        content_type: "text/css; charset=utf-8",
        tag: "2613a89002de74a5",
        plain: include_bytes!("assets/style-DXT9ywa4.css"),
        gzip: include_bytes!("assets/style-DXT9ywa4.css.gz"),
        brotli: include_bytes!("assets/style-DXT9ywa4.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "a336d8f27dcc09ec",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
