/** VitePress's theme with colors of enough contrast. */
import DefaultTheme from 'vitepress/theme'
import './colors.css'

// biome-ignore lint/style/noDefaultExport: VitePress reads the default export
export default DefaultTheme
