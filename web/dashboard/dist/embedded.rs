// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-pOgmf0QH.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "b71a3646353351d5",
        plain: include_bytes!("assets/index-pOgmf0QH.js"),
        gzip: include_bytes!("assets/index-pOgmf0QH.js.gz"),
        brotli: include_bytes!("assets/index-pOgmf0QH.js.br"),
    },
    Asset {
        name: "assets/style-B8hfW7gP.css",
        content_type: "text/css; charset=utf-8",
        tag: "8d0ed159ab7802c4",
        plain: include_bytes!("assets/style-B8hfW7gP.css"),
        gzip: include_bytes!("assets/style-B8hfW7gP.css.gz"),
        brotli: include_bytes!("assets/style-B8hfW7gP.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "68683d292716a0a4",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
