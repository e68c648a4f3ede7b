// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DZCuiXls.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "01525bf79ecb500b",
        plain: include_bytes!("assets/index-DZCuiXls.js"),
        gzip: include_bytes!("assets/index-DZCuiXls.js.gz"),
        brotli: include_bytes!("assets/index-DZCuiXls.js.br"),
    },
    Asset {
        name: "assets/style-C0c2iWMf.css",
        content_type: "text/css; charset=utf-8",
        tag: "0e1dd3ac2f88fbdd",
        plain: include_bytes!("assets/style-C0c2iWMf.css"),
        gzip: include_bytes!("assets/style-C0c2iWMf.css.gz"),
        brotli: include_bytes!("assets/style-C0c2iWMf.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "6ee14e51c960d00e",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
