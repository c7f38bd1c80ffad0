"""Office, PDF and e-book files with contents that libraries skip; each text is one word."""

import io
import re
import zipfile
from collections.abc import Mapping

import docx
import pypdf
from docx.oxml import parse_xml
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

OPEN = "http://schemas.openxmlformats.org"
SPACES = (
    f'xmlns:w="{OPEN}/wordprocessingml/2006/main" xmlns:m="{OPEN}/officeDocument/2006/math" '
    f'xmlns:a="{OPEN}/drawingml/2006/main" xmlns:c="{OPEN}/drawingml/2006/chart" '
    f'xmlns:dgm="{OPEN}/drawingml/2006/diagram" xmlns:mc="{OPEN}/markup-compatibility/2006" '
    f'xmlns:r="{OPEN}/officeDocument/2006/relationships" '
    f'xmlns:p="{OPEN}/presentationml/2006/main" xmlns:v="urn:schemas-microsoft-com:vml" '
    f'xmlns:wp="{OPEN}/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)


def rezipped(data: bytes, put: Mapping[str, str | bytes]) -> bytes:
    """An archive with these members added or replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for one in old.namelist():
            if one not in put:
                new.writestr(one, old.read(one))
        for name, text in put.items():
            new.writestr(name, text)
    return out.getvalue()


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def drawn(text: str, within: str = "") -> str:
    """A text box in DrawingML, with a nested one."""
    return (
        "<w:drawing><wp:inline><a:graphic><a:graphicData><wps:wsp><wps:txbx><w:txbxContent>"
        f"<w:p>{run(text)}<w:r>{within}</w:r></w:p></w:txbxContent></wps:txbx></wps:wsp></a:graphicData></a:graphic>"
        "</wp:inline></w:drawing>"
    )


def vml(text: str) -> str:
    """A text box in VML."""
    return (
        f"<w:pict><v:shape><v:textbox><w:txbxContent><w:p>{run(text)}</w:p></w:txbxContent>"
        "</v:textbox></v:shape></w:pict>"
    )


def both(text: str) -> str:
    """A text box like Word's: in DrawingML, and in VML for older programs."""
    return (
        f'<mc:AlternateContent><mc:Choice Requires="wps">{drawn(text)}</mc:Choice>'
        f"<mc:Fallback>{vml(text)}</mc:Fallback></mc:AlternateContent>"
    )


def term(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


POWER = f"<m:sSup><m:e>{term('y')}</m:e><m:sup>{term('2')}</m:sup></m:sSup>"
INDEX = f"<m:sSub><m:e>{term('k')}</m:e><m:sub>{term('i')}</m:sub></m:sSub>"
FRACTION = f"<m:f><m:num>{term('1+a')}</m:num><m:den>{term('b')}</m:den></m:f>"
ROOT = f"<m:rad><m:deg/><m:e>{term('c')}</m:e></m:rad>"
EQUATION = f"<m:oMath>{term('x=')}{POWER}{term('+')}{INDEX}{FRACTION}{ROOT}</m:oMath>"
LINE = f"<m:oMathPara><m:oMath>{term('E=m')}</m:oMath></m:oMathPara>"
RUBY = (
    f"<w:r><w:ruby><w:rt>{run('kanji')}</w:rt><w:rubyBase>{run('漢字')}</w:rubyBase></w:ruby></w:r>"
)
PICTURE = (
    '<w:r><w:drawing><wp:inline><wp:docPr id="1" name="p" descr="agull"/><a:graphic>'
    f'<a:graphicData><pic:pic xmlns:pic="{OPEN}/drawingml/2006/picture"><pic:blipFill>'
    '<a:blip r:embed="rXp"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline>'
    "</w:drawing></w:r>"
)
PARTS = {  # kind -> a paragraph of that kind
    "drawn": f"<w:r>{drawn('drawnbox')}</w:r>",
    "vml": f"<w:r>{vml('vmlbox')}</w:r>",
    "both": f"{run('beside')}<w:r>{both('bothbox')}{both('secondbox')}</w:r>",
    "nested": f"<w:r>{drawn('outer', drawn('inner'))}</w:r>",
    "equation": f"{run('where ')}{EQUATION}{run(' holds')}",
    "line": LINE,
    "field": f'<w:fldSimple w:instr="AUTHOR">{run("simplefield")}</w:fldSimple>',
    "ruby": RUBY,
    "inserted": f"<w:ins>{run('putin')}</w:ins><w:del><w:r><w:delText>takenout</w:delText></w:r>"
    f"<w:r>{drawn('takenbox')}</w:r></w:del>",
    "moved": f"<w:moveFrom>{run('fromhere')}</w:moveFrom><w:moveTo>{run('tothere')}</w:moveTo>",
    "tag": f"<w:smartTag>{run('smarttag')}</w:smartTag>"
    f"<w:customXml>{run('customxml')}</w:customXml>",
    "isolated": f"<w:bdo>{run('righttoleft')}</w:bdo>",
    "picture": PICTURE,
    "old": '<w:r><w:pict><v:shape alt="oldgull"><v:imagedata r:id="rX"/></v:shape></w:pict></w:r>',
    "link": f'<w:hyperlink r:id="rX">{run("tonowhere")}</w:hyperlink>',
}


def word(*kinds: str) -> bytes:
    """A DOCX with a paragraph of the given kinds (default: all), header, footer and comment.

    A kind may be the contents of a paragraph."""
    document = docx.Document()
    document.add_heading("Harbour", 1)
    for kind in kinds or PARTS:
        element = parse_xml(f"<w:p {SPACES}>{PARTS.get(kind, kind)}</w:p>")
        document.element.body.insert(len(document.element.body) - 1, element)
    last = document.add_paragraph("commented here")
    document.add_comment(last.runs, text="acomment", author="Ada", initials="AL")
    section = document.sections[0]
    section.header.paragraphs[0].text = "aheader"
    section.footer.paragraphs[0].text = "afooter"
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


NOTES = f"""<w:footnotes {SPACES}><w:footnote w:id="1"><w:p>{run("afootnote ")}
<w:fldSimple>{run("infootnote")}</w:fldSimple></w:p></w:footnote></w:footnotes>"""
CHART = f"""<c:chartSpace {SPACES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>chart</a:t></a:r>
<a:r><a:t>title</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart><c:ser><c:tx>
<c:strRef><c:strCache><c:pt idx="0"><c:v>aseries</c:v></c:pt></c:strCache></c:strRef></c:tx><c:cat>
<c:strRef><c:strCache><c:pt idx="0"><c:v>acategory</c:v></c:pt></c:strCache></c:strRef></c:cat>
<c:val><c:numRef><c:numCache><c:pt idx="0"><c:v>4711</c:v></c:pt></c:numCache></c:numRef></c:val>
</c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>"""
DIAGRAM = f"""<dgm:dataModel {SPACES}><dgm:ptLst><dgm:pt modelId="1"><dgm:t><a:p><a:r>
<a:t>smartart</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>"""
RELATION = (
    f'<Relationship Id="rX{{0}}" Type="{OPEN}/officeDocument/2006/relationships/{{1}}" '
    'Target="{2}"/>'
)


def related(data: bytes, rels: str, *parts: tuple[str, str, str, str]) -> bytes:
    """An archive with related parts: name, type, kind and contents of each."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    links = "".join(
        RELATION.format(number, kind, f"/{name}") for number, (name, _, kind, _) in enumerate(parts)
    )
    types = "".join(
        f'<Override PartName="/{name}" ContentType="{type_}"/>' for name, type_, _, _ in parts
    )
    put: dict[str, str | bytes] = {name: text for name, _, _, text in parts}
    for member, more in ((rels, links), ("[Content_Types].xml", types)):
        put[member] = re.sub(r"(</\w+>\s*)\Z", rf"{more}\1", archive.read(member).decode())
    return rezipped(data, put)


WORDS = "application/vnd.openxmlformats-officedocument"
FOOTNOTES = (
    "word/footnotes.xml",
    f"{WORDS}.wordprocessingml.footnotes+xml",
    "footnotes",
    NOTES,
)
DRAWN = (
    ("word/charts/chart1.xml", f"{WORDS}.drawingml.chart+xml", "chart", CHART),
    ("word/diagrams/data1.xml", f"{WORDS}.drawingml.diagramData+xml", "diagramData", DIAGRAM),
)
EMBEDDED = (
    ("word/embeddings/object1.bin", f"{WORDS}.oleObject", "oleObject", "OLE"),
    ("word/page.htm", "text/html", "aFChunk", "<p>chunk</p>"),
)


def slides() -> bytes:
    """A PPTX with a chart, SmartArt, a table, notes, comments, an equation and a newer shape."""
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Harbour"
    data = CategoryChartData()
    data.categories = ["acategory", "othercategory"]
    data.add_series("aseries", (4711, 2))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 999, 999, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "charttitle"
    table = slide.shapes.add_table(1, 2, 0, 0, 9, 9).table
    table.cell(0, 0).text, table.cell(0, 1).text = "leftcell", "rightcell"
    box = slide.shapes.add_textbox(0, 0, 9, 9)
    box.text_frame.text = "area "
    box.text_frame.paragraphs[0]._p.append(parse_xml(f"<a14:m {SPACES}>{EQUATION}</a14:m>"))
    newer = slide.shapes.add_textbox(0, 0, 9, 9)
    newer.text_frame.text = "newershape"
    wrapped = parse_xml(
        f'<mc:AlternateContent {SPACES}><mc:Choice Requires="a14"/><mc:Fallback><p:pic/>'
        "</mc:Fallback></mc:AlternateContent>"
    )
    newer._element.addprevious(wrapped)
    wrapped[0].append(newer._element)
    slide.notes_slide.notes_text_frame.text = "speakernote"
    for name, kind, relation, text in (
        ("diagrams/data1", "drawingml.diagramData", "diagramData", DIAGRAM),
        (
            "comments/comment1",
            "presentationml.comments",
            "comments",
            f"<p:cmLst {SPACES}><p:cm><p:text>acomment</p:text></p:cm></p:cmLst>",
        ),
        ("embeddings/object1", "oleObject", "oleObject", "OLE"),
    ):
        part = Part(
            PackURI(f"/ppt/{name}.xml"), f"{WORDS}.{kind}+xml", slide.part.package, text.encode()
        )
        slide.part.relate_to(part, f"{OPEN}/officeDocument/2006/relationships/{relation}")
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def _named(**values: object) -> DictionaryObject:
    return DictionaryObject({NameObject(f"/{name}"): value for name, value in values.items()})


def form(*, xfa: bool = False, page: str = "visible") -> bytes:
    """A PDF with a form, notes and an attachment."""
    writer = pypdf.PdfWriter()
    sheet = writer.add_blank_page(300, 300)
    font = _named(Type=NameObject("/Font"), Subtype=NameObject("/Type1"))
    font[NameObject("/BaseFont")] = NameObject("/Helvetica")
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F1 12 Tf 10 250 Td ({page}) Tj ET".encode())
    sheet[NameObject("/Resources")] = _named(Font=_named(F1=font))
    sheet[NameObject("/Contents")] = writer._add_object(stream)
    box = ArrayObject([FloatObject(one) for one in (10, 10, 90, 30)])
    fields, notes = ArrayObject(), ArrayObject()
    text = TextStringObject
    for kind, name, value, flags in (
        ("/Tx", "owner", text("Ada Lovelace"), 0),
        ("/Ch", "port", text("GE"), 1 << 17),
        ("/Ch", "ports", ArrayObject([text("GE"), text("PI")]), 1 << 21),
        ("/Btn", "insured", NameObject("/Yes"), 0),
        ("/Btn", "sold", NameObject("/Off"), 0),
        ("/Tx", "empty", text(""), 0),
        ("/Tx", "hiddenword", text("openSesame"), 1 << 13),
    ):
        field = _named(Type=NameObject("/Annot"), Subtype=NameObject("/Widget"), Rect=box)
        field.update(_named(FT=NameObject(kind), T=text(name), V=value, Ff=NumberObject(flags)))
        if kind == "/Btn":
            field[NameObject("/AS")] = value
        if kind == "/Ch":
            field[NameObject("/Opt")] = ArrayObject(
                [ArrayObject([text("GE"), text("Genoa")]), ArrayObject([text("PI"), text("Pisa")])]
            )
        fields.append(writer._add_object(field))
    for kind, value in (
        ("/Text", "stickynote"),
        ("/Highlight", "highlightnote"),
        ("/FreeText", "freetext"),
        ("/Popup", ""),
    ):
        note = _named(Type=NameObject("/Annot"), Subtype=NameObject(kind), Rect=box)
        note[NameObject("/Contents")] = text(value)
        notes.append(writer._add_object(note))
    sheet[NameObject("/Annots")] = ArrayObject([*fields, *notes])
    acro = _named(Fields=fields, DA=text("/F1 12 Tf"), DR=_named(Font=_named(F1=font)))
    if xfa:
        made = DecodedStreamObject()
        made.set_data(b"<xdp/>")
        acro[NameObject("/XFA")] = writer._add_object(made)
        writer._root_object[NameObject("/NeedsRendering")] = pypdf.generic.BooleanObject(True)
    writer._root_object[NameObject("/AcroForm")] = writer._add_object(acro)
    writer.add_attachment("plan.txt", b"plan")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
