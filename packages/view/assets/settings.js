/** The settings of a run and the descriptions of its parts. */
import { card, fill, h, table } from './dom.js'
import { flat, setting } from './format.js'
import { frame, loadRun } from './runFrame.js'
import { visible } from './visible.js'

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const settingsView = async ({ path: [, id] }, signal) => {
  const run = await loadRun(id, signal)
  const search = h('input', {
    type: 'search',
    class: 'grow',
    placeholder: 'Find settings',
    'aria-label': 'Find settings',
  })
  const lists = h('div', { class: 'split' })
  const rowsOf = (record) =>
    flat(record)
      .filter(([path, value]) => `${path} ${setting(value)}`.toLowerCase().includes(search.value.toLowerCase()))
      .map(([path, value]) => [
        h('span', { class: 'mono' }, visible(path)),
        h('span', { class: 'mono wrap' }, visible(setting(value))),
      ])
  const draw = () => {
    const [settings, parts] = [rowsOf(run.settings), rowsOf(run.parts)]
    fill(
      lists,
      card('Settings', null, table(['Setting', 'Value'], settings, 'Settings')),
      parts.length === 0
        ? null
        : card('Parts of the run', null, table(['Part', 'Description'], parts, 'Parts of the run')),
    )
  }
  search.addEventListener('input', draw)
  draw()
  return {
    ...frame(run, 'settings'),
    body: h(
      'div',
      {},
      h('div', { class: 'head' }, h('h1', {}, 'Settings')),
      h('div', { class: 'tools sticky' }, search),
      lists,
    ),
  }
}
