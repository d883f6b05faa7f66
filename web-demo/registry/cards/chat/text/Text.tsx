// A text in Markdown, as plain text. Put the Markdown component of your page here. It must escape HTML and load no pictures.

export const Text = ({ text }: { text: string }) => (
  <p dir="auto" className="text-sm leading-6 whitespace-pre-wrap wrap-anywhere">
    {text}
  </p>
);
