/** A failure of a template: where Python would raise, or where its budget of work is used up. It is caught where templates are rendered. */
export class TemplateError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'TemplateError'
  }
}
