// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-B1cHziyY.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "6677225d39f31651",
        plain: include_bytes!("assets/index-B1cHziyY.js"),
        gzip: include_bytes!("assets/index-B1cHziyY.js.gz"),
        brotli: include_bytes!("assets/index-B1cHziyY.js.br"),
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
        tag: "623a21ad42301597",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
