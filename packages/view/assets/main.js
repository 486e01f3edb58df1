/** The page: opens the view of the address, and holds what all views share. */
import { exportedAt, isExported } from './api.js'
import { chatView } from './chat.js'
import { compareView } from './compare.js'
import { announce, fill, h } from './dom.js'
import { evidenceView } from './evidence.js'
import { date } from './format.js'
import { healthView } from './health.js'
import { listenToKeys, setGlobalKeys, setViewKeys, showHelp } from './keys.js'
import { labView } from './lab.js'
import { rescoreView } from './rescore.js'
import { rolloutView } from './rollout.js'
import { rolloutsView } from './rollouts.js'
import { address, currentRoute, go } from './router.js'
import { runView } from './run.js'
import { runsView } from './runs.js'
import { settingsView } from './settings.js'

const RUN_VIEWS = {
  rollouts: rolloutsView,
  rollout: rolloutView,
  health: healthView,
  reward: rescoreView,
  lab: labView,
  chat: chatView,
  settings: settingsView,
}

const main = document.getElementById('main')

/** @param {import('./router.js').Route} route */
const viewOf = ({ path: [kind = 'runs', , part] }) => {
  if (kind === 'runs') return runsView
  if (kind === 'compare') return compareView
  if (kind === 'evidence') return evidenceView
  if (kind === 'run') return part === undefined ? runView : RUN_VIEWS[part]
  return undefined
}

const logo = () =>
  h(
    'svg',
    { viewBox: '0 0 32 32', 'aria-hidden': 'true' },
    h('rect', { width: 32, height: 32, rx: 7, fill: 'var(--accent)' }),
    h('path', { d: 'M6 22c5 0 5-12 10-12s5 12 10 12', fill: 'none', stroke: 'var(--on-accent)', 'stroke-width': 2.6 }),
    h('circle', { cx: 16, cy: 10, r: 3, fill: '#ffb454' }),
  )

const THEMES = ['system', 'light', 'dark']

const currentTheme = () => document.documentElement.dataset.theme ?? 'system'

const switchTheme = () => {
  const next = THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]
  if (next === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = next
  try {
    localStorage.setItem('tandem-theme', next)
  } catch {
    // The choice lasts until the page is closed.
  }
  document.dispatchEvent(new Event('theme'))
  announce(`Theme: ${next}`)
  themeButton.textContent = themeLabel()
}

const themeLabel = () => `${{ system: '◐', light: '○', dark: '●' }[currentTheme()]} ${currentTheme()}`

const themeButton = h(
  'button',
  { class: 'quiet wide-only', onclick: switchTheme, title: 'Switch the theme (t)' },
  themeLabel(),
)

const focusSearch = () => main.querySelector('input[type="search"]')?.focus()

const tabsOf = ({ tabs }) =>
  tabs === undefined
    ? null
    : h(
        'nav',
        { class: 'tabs', 'aria-label': 'Views of the run' },
        tabs.map(({ label, href, isOpen }) => h('a', { href, 'aria-current': isOpen ? 'page' : null }, label)),
      )

/** Draws the header: where the view is, and what all views offer. */
const drawTop = (view) => {
  const crumbs = (view.crumbs ?? []).map(({ label, href }) => [
    h('span', { 'aria-hidden': 'true' }, '/'),
    href === undefined ? h('span', {}, label) : h('a', { href }, label),
  ])
  fill(
    document.getElementById('top'),
    h(
      'div',
      { class: 'bar' },
      h(
        'a',
        { class: 'brand', href: address(['runs']), 'aria-label': 'Tandem view: all runs' },
        logo(),
        h('span', {}, 'Tandem'),
      ),
      h('nav', { class: 'crumbs', 'aria-label': 'Place' }, crumbs),
      isExported ? h('span', { class: 'badge accent' }, `Exported ${date(exportedAt)}`) : null,
      h('a', { class: 'wide-only', href: address(['evidence']) }, 'Evidence'),
      themeButton,
      h(
        'button',
        { class: 'quiet', onclick: showHelp, 'aria-label': 'Keyboard shortcuts', title: 'Keyboard shortcuts (?)' },
        '?',
      ),
    ),
    tabsOf(view),
  )
}

/** Aborts the requests and listeners of the open view when another one opens. */
let closing = new AbortController()

const failedView = (error) => ({
  title: 'Not available',
  crumbs: [{ label: 'Not available' }],
  body: h('div', { class: 'error', role: 'alert' }, error.message),
})

/** Opens the view of the address. The previous view stays until the new one is ready. */
const open = async () => {
  const route = currentRoute()
  const scope = new AbortController()
  closing.abort()
  closing = scope
  main.setAttribute('aria-busy', 'true')
  let view
  try {
    const make = viewOf(route)
    if (make === undefined) throw new Error('There is no view at this address.')
    view = await make(route, scope.signal)
  } catch (error) {
    if (scope.signal.aborted) return
    view = failedView(error)
  }
  if (scope.signal.aborted) return
  document.title = `${view.title} · Tandem`
  setViewKeys(view.keys ?? [])
  drawTop(view)
  document.body.classList.toggle('has-tabs', view.tabs !== undefined)
  fill(main, view.body)
  main.removeAttribute('aria-busy')
  window.scrollTo(0, 0)
  view.opened?.()
}

const runTab = (part) => () => {
  const [kind, id] = currentRoute().path
  if (kind === 'run') go(address(part === null ? ['run', id] : ['run', id, part]))
}

setGlobalKeys([
  { keys: '/', label: 'Search', run: focusSearch },
  { keys: '?', label: 'This list', run: showHelp },
  { keys: 't', label: 'Switch between system, light and dark theme', run: switchTheme },
  { keys: 'g r', label: 'Go to all runs', run: () => go(address(['runs'])) },
  { keys: 'g e', label: 'Go to the evidence', run: () => go(address(['evidence'])) },
  { keys: 'g o', label: 'Go to the overview of the run', run: runTab(null) },
  { keys: 'g l', label: 'Go to the rollouts of the run', run: runTab('rollouts') },
  { keys: 'g h', label: 'Go to the health of the run', run: runTab('health') },
  { keys: 'g w', label: 'Go to the reward editor', run: runTab('reward') },
  { keys: 'g b', label: 'Go to the lab', run: runTab('lab') },
  { keys: 'g c', label: 'Go to the chat', run: runTab('chat') },
  { keys: 'g s', label: 'Go to the settings of the run', run: runTab('settings') },
  { keys: 'Escape', label: 'Back', run: () => history.back() },
])
listenToKeys()
window.addEventListener('hashchange', open)
drawTop({})
fill(main, h('div', { class: 'skeleton' }, 'Loading …'))
open()
