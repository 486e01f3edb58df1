/** VitePress's theme with colors of enough contrast, and a button that runs programs. */
import DefaultTheme from 'vitepress/theme'
import './colors.css'
import { RunPage } from './runPage.js'

// biome-ignore lint/style/noDefaultExport: VitePress reads the default export
export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }: { readonly app: { readonly component: (name: string, made: object) => void } }) => {
    app.component('RunPage', RunPage)
  },
}
